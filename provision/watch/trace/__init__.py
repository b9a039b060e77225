"""What a trace says: why a program is slow, in words, with the evidence."""
