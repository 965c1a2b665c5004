"""Spreadsheets: scenarios in, plans out."""
