"""The benchmark `emppi bench paper`: runs in cells, their rows, and a report."""
