"""The embedded AWS: moto's EC2, SSM, IAM and CloudFormation, with what EC2 does and moto does not put into moto's own classes.

The gaps of moto that are filled here are listed in docs/sources/emulators.md §A.
"""

import os

# moto reads these when it is imported; without a home it would read the user's AWS configuration.
os.environ.update(MOTO_EC2_LOAD_DEFAULT_AMIS="true", AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
