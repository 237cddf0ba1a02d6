"""Networks, their options, uploads of models, and task extraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from django.http import HttpRequest
from ninja import File, Form, Query, Router, Status
from ninja.errors import HttpError
from ninja.files import UploadedFile
from typing_extensions import TypedDict

from dashboard.accounts import DELETE_NETWORK, UPLOAD
from dashboard.http.access import find, person
from tuning.actions import launching, projects
from tuning.actions.networks import extracting, float_models, uploading
from tuning.models import Extraction, ExtractionDict, Network, NetworkDetail
from tuning.reads import network_list
from tuning.reads.network_list import EngineDict, NetworkDict, OperatorsDict
from tuning.validation import Invalid, OptionDict

from . import bodies, queries
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["networks"])


class NetworkList(TypedDict):
    """All networks with their options, and the options of runs of MetaSchedule; then those of each engine."""

    items: list[NetworkDict]
    run_options: list[OptionDict]
    engines: list[EngineDict]


@router.get("networks", response={200: NetworkList, **ERRORS})
def list_networks(request: HttpRequest, query: Query[queries.NetworkQuery]) -> NetworkList:
    """The networks that can be tuned, and all options with defaults and bounds."""
    known = network_list.networks(person(request))
    items = [one for one in known if not query.project or one["project"] in (None, query.project)]
    run_options = [*launching.budget_options(), *launching.tuning_options()]
    return {"items": items, "run_options": run_options, "engines": network_list.engines()}


@router.get("networks/operators", response={200: OperatorsDict, **ERRORS})
def list_operators(request: HttpRequest) -> OperatorsDict:  # noqa: ARG001
    """The operators that uploaded models may have. TVM is asked once for each of its versions, which takes seconds."""
    try:
        return network_list.operators()
    except network_list.Untold as error:
        raise HttpError(503, str(error)) from error


@router.post("networks", response={200: NetworkDetail, 201: NetworkDetail, **ERRORS}, auth=needs(UPLOAD))
def upload_network(
    request: HttpRequest,
    file: Annotated[
        UploadedFile,
        File(
            description="ONNX, a program as `torch.export.save` writes it, or a Relax module as `tvm.ir.save_json` does"
        ),
    ],
    name: Annotated[str, Form(description="By default, the file's name.")] = "",
    project: Annotated[str, Form(description="By name; can be left out by those who upload to only one.")] = "",
    dims: Annotated[
        str,
        Form(
            description='Values of the model\'s open dimensions: `{"batch": 1}`. Several values of one, `{"batch": [1, 8, 32]}`, make a network each.'
        ),
    ] = "",
) -> Status[NetworkDetail]:
    """Upload a model, which is checked first. 201, or 200 if it exists already. Errors are listed by field.

    Of several networks the answer is the first; its `batches` names the others.
    """
    user, values = person(request), _dims(dims)
    owner = projects.chosen(project, user, UPLOAD)
    network, new = uploading.upload(file, owner, user, name=name, dims=values)
    return Status(201 if new else 200, network.to_dict())


@router.get("networks/{number:network_id}", response={200: NetworkDetail, **ERRORS})
def get_network(request: HttpRequest, network_id: int) -> NetworkDetail:
    """An uploaded model, or a built-in network that has been used."""
    return find(request, Network.objects.select_related("project", "uploaded_by"), pk=network_id).to_dict()


@router.patch(
    "networks/{number:network_id}",
    response={200: NetworkDetail, **ERRORS},
    auth=needs(UPLOAD),
    openapi_extra=bodies.NETWORK,
)
def change_network(request: HttpRequest, network_id: int) -> NetworkDetail:
    """Say which network a quantized one was made from, or that none is known: its libraries are compared with that one."""
    network = find(request, Network.objects.select_related("project", "uploaded_by"), UPLOAD, pk=network_id)
    body = bodies.fields(request, "float_model")
    if "float_model" not in body:
        raise Invalid({"float_model": "Give the id of a network, or null."})
    float_models.choose(network, body["float_model"])
    return network.to_dict()


@router.delete("networks/{number:network_id}", response={204: None, **ERRORS}, auth=needs(DELETE_NETWORK))
def delete_network(request: HttpRequest, network_id: int) -> Status[None]:
    """Delete an uploaded model that has no runs."""
    uploading.delete(find(request, Network.objects.all(), DELETE_NETWORK, pk=network_id))
    return Status(204, None)


@router.post(
    "extractions",
    response={202: ExtractionDict, **ERRORS},
    auth=needs(UPLOAD),
    openapi_extra=bodies.EXTRACTION,
)
def extract_tasks(request: HttpRequest) -> Status[ExtractionDict]:
    """Extract a network's tasks for a target. Ask for the extraction until its status is finished or failed."""
    extraction = extracting.extract_tasks(bodies.json_object(request), person(request))
    return Status(202, extraction.to_dict())


@router.get("extractions/{number:extraction_id}", response={200: ExtractionDict, **ERRORS})
def get_extraction(request: HttpRequest, extraction_id: int) -> ExtractionDict:
    """The extraction, with its tasks once it is finished."""
    return find(request, Extraction.objects.select_related("network"), pk=extraction_id).to_dict()


def _dims(text: str) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid({"dims": 'Must be a JSON object of names and numbers, such as {"batch": 1}.'}) from error
