"""The load client: requests go out as a load says, and bytes are stamped as they come back."""
