"""Parallel computation: processes of this machine, or a Dask cluster."""
