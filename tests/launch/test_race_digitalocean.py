"""The race for a name on DigitalOcean; what it does is in race.py."""

from .race import test_of_several_people_with_one_name_one_launches_and_the_others_are_told

__all__ = ["KIND", "test_of_several_people_with_one_name_one_launches_and_the_others_are_told"]

KIND = "digitalocean"
