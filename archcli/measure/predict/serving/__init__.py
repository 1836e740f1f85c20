"""Serving: one prefill and the decoded tokens behind it, as an engine runs them; break-even points."""
