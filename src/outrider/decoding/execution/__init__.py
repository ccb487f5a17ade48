"""Carries out the machines' jobs on models."""
