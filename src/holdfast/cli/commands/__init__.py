"""A module for each command, with the name of the command; `root` imports the one that is called."""
