"""AWS through boto3, the only home of that library."""
