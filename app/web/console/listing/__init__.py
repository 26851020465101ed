"""The lists of the console and its search box: each list reads one list of the API."""
