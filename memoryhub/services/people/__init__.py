"""Subjects, and acts on subjects: restriction, legal holds."""
