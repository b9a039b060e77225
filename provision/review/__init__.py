"""Let others decide: the bundle that is reviewed, the organisation's rules, and who signed what."""
