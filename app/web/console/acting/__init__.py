"""What a reader can do: acts as data, their forms, and the requests of the API that they are."""
