"""Measure what a GPU machine can do: recipes that run on the host, and what is made of their figures."""
