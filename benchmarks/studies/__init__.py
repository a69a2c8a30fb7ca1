"""`emppi bench STUDY`: the command line of the studies."""
