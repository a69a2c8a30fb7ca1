"""Recordings of robots: bags and tables, their signals, and what is wrong with them."""
