"""The version of this package, which is that of the program it comes with."""

VERSION = "0.1.0"
