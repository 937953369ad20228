"""Lists, profiles and long-term memory of subjects, and recipients of the memory."""
