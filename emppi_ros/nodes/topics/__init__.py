"""Topics that several nodes publish or subscribe to, one file each."""
