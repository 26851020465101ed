"""The pages of single things: facts, short lists, attempts."""
