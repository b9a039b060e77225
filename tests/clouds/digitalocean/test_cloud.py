"""DigitalOcean keeps the contract, over HTTP against the embedded DigitalOcean; and what is DigitalOcean's alone."""

from tests.clouds.contract import CloudContract


class TestContract(CloudContract):
    """The suite of all clouds."""
