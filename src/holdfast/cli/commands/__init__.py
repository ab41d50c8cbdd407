"""One module per command, with the command's name; `root` imports the one that is called."""
