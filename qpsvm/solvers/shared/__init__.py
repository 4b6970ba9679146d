"""Code that two or more families of methods use."""
