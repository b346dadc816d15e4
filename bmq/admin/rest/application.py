"""The REST API as an ASGI application: health, metrics, pages and orders. The web console is at /, OpenAPI at /openapi.json,
to try out at /docs.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bmq.admin.rest.authorization import Authorization, sees_problems
from bmq.admin.rest.body_limit import BodyLimit
from bmq.admin.rest.channel_agent_pages import channel_agent_pages
from bmq.admin.rest.channel_pages import channel_pages
from bmq.admin.rest.cluster_pages import cluster_pages
from bmq.admin.rest.compaction_pages import compaction_pages
from bmq.admin.rest.config_pages import config_pages
from bmq.admin.rest.console_pages import console_pages
from bmq.admin.rest.documentation import documentation_pages
from bmq.admin.rest.group_offset_pages import group_offset_pages
from bmq.admin.rest.group_pages import group_pages
from bmq.admin.rest.half_pages import half_pages
from bmq.admin.rest.health_pages import HEALTH_PATH, LIVE_PATH, described, health_reasons
from bmq.admin.rest.history_pages import history_pages
from bmq.admin.rest.index_pages import index_pages
from bmq.admin.rest.lane_pages import lane_pages
from bmq.admin.rest.log_pages import log_pages
from bmq.admin.rest.node_partition_pages import node_partition_pages
from bmq.admin.rest.order_pages import order_pages
from bmq.admin.rest.partition_transaction_pages import partition_transaction_pages
from bmq.admin.rest.problems import handle_problems
from bmq.admin.rest.query_text import QueryText
from bmq.admin.rest.record_pages import record_pages
from bmq.admin.rest.redrive_pages import redrive_pages
from bmq.admin.rest.rights_pages import rights_pages
from bmq.admin.rest.security_pages import security_pages
from bmq.admin.rest.segment_pages import STORE_WAIT_S, segment_pages
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.table_pages import table_pages
from bmq.admin.rest.task_pages import task_pages
from bmq.admin.rest.timer_pages import timer_pages
from bmq.admin.rest.topic_pages import topic_pages
from bmq.admin.rest.transaction_pages import transaction_pages
from bmq.admin.rest.view_pages import view_pages
from bmq.admin.rest.views import Health, Live, WhyView
from bmq.console.assets import Assets

__all__ = ["RestSources", "rest_application"]


def rest_application(
    sources: RestSources, *, store_wait_s: float = STORE_WAIT_S, assets: Assets | None = None
) -> FastAPI:
    """The same for a node of a cluster and for a process that is all of it; bmq/cli runs it. `assets`: of the console."""
    app = FastAPI(
        title="bmq",
        version="1",
        description="Operate a bmq cluster.",
        redirect_slashes=False,
        docs_url=None,  # FastAPI's own pages load their scripts from elsewhere
        redoc_url=None,
    )

    app.include_router(_probes(sources))
    app.include_router(console_pages(assets))
    app.include_router(documentation_pages())
    app.include_router(cluster_pages(sources))
    app.include_router(node_partition_pages(sources))
    app.include_router(history_pages(sources))
    app.include_router(topic_pages(sources))
    app.include_router(config_pages(sources))
    app.include_router(record_pages(sources))
    app.include_router(segment_pages(sources, store_wait_s))
    app.include_router(task_pages(sources))
    app.include_router(order_pages(sources))
    app.include_router(table_pages(sources))
    app.include_router(channel_agent_pages(sources))
    app.include_router(channel_pages(sources))
    app.include_router(index_pages(sources))
    app.include_router(compaction_pages(sources))
    app.include_router(group_pages(sources))
    app.include_router(group_offset_pages(sources))
    app.include_router(lane_pages(sources))
    app.include_router(timer_pages(sources))
    app.include_router(redrive_pages(sources))
    app.include_router(view_pages(sources))
    app.include_router(half_pages(sources))
    app.include_router(transaction_pages(sources))
    app.include_router(partition_transaction_pages(sources))
    app.include_router(security_pages(sources))
    app.include_router(rights_pages(sources))
    app.include_router(log_pages(sources))
    app.add_middleware(BodyLimit)
    app.add_middleware(QueryText)
    app.add_middleware(
        Authorization,
        access=sources.access,
        principal_of=sources.principal_of,
        are_acls_known=sources.is_ready,
    )
    handle_problems(app)
    return app


def _probes(sources: RestSources) -> APIRouter:
    """What probes and Prometheus ask for."""
    pages = APIRouter()

    @pages.get(
        HEALTH_PATH,
        response_model_exclude_defaults=True,
        responses={503: {"model": Health, "description": "Not yet, or not any more."}},
    )
    async def health(request: Request, response: Response) -> Health:
        """200 once produces are accepted, 503 before and while stopping. What is wrong is named, with what to do, to who may
        describe the cluster.
        """
        ready = sources.is_ready()
        response.status_code = 200 if ready else 503
        partitions = sources.partitions()
        if not sees_problems(request.scope):
            return Health(ready=ready)
        return Health(
            ready=ready,
            problems=list(partitions.problems) if partitions else [],
            why=[WhyView.model_validate(described(reason)) for reason in health_reasons(sources)],
        )

    @pages.get(LIVE_PATH)
    async def live() -> Live:
        """200 as long as the process answers: one that does not should be started again."""
        return Live(live=True)

    @pages.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Prometheus text format."""
        await sources.refresh_metrics()
        return Response(generate_latest(sources.registry), media_type=CONTENT_TYPE_LATEST)

    return pages
