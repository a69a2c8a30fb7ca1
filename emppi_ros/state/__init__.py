"""From measurements to the state of everything at one moment."""
