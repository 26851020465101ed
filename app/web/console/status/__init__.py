"""The first page: the verdict and the overview; and the page of a topic and a callback."""
