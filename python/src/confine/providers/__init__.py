"""confine for other packages. Each module here needs the package that it is named after, and nothing imports it unasked."""
