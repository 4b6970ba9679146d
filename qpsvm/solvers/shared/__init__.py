"""What two families of methods or more use."""
