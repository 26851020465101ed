"""Commands that mend what failed: incidents, holds, dead letters."""
