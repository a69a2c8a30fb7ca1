"""The benchmark `emppi bench identify`: methods of identification on data whose truth is known."""
