"""The command line: parse options, run what they ask for, report errors."""
