"""The survey of models that a test makes."""

from archcli.measure.survey.columns import describe
from archcli.measure.survey.survey import survey_records


def survey_models(models, *args, **options):
    """The report on (name, model) pairs; the other arguments are those of `survey_records`."""
    return survey_records([describe(name, model) for name, model in models], *args, **options)
