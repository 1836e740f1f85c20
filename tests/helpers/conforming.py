"""Every document that a test has `archcli profile` print fits its JSON Schema, by a validator that is not ours."""

import json
from functools import cache


@cache
def validator():
    """Made when it is first needed: most tests print no profile."""
    from jsonschema import Draft202012Validator

    from archcli.measure.profile.schema import json_schema

    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def conforms(args, printed):
    """Raises AssertionError with the place where `archcli ARGS` printed a profile's JSON that does not fit; anything else passes."""
    if args and args[0] == "profile" and "--json" in args and printed:
        from archcli.measure.profile.schema import first_violation

        document = json.loads(printed)
        assert validator().is_valid(document), first_violation(document)
