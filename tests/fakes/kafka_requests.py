"""Answers Kafka requests of REST's clients over topics in memory: records, offsets, configs, groups' offsets, security."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from bmq.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from bmq.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from bmq.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from bmq.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from bmq.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from bmq.protocol.messages.describe_producers_response import DescribeProducersResponse, ProducerState
from bmq.protocol.messages.describe_producers_response import PartitionResponse as ProducersOfPartition
from bmq.protocol.messages.describe_producers_response import TopicResponse as ProducersOfTopic
from bmq.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from bmq.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from bmq.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from bmq.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bmq.protocol.messages.list_transactions_response import ListTransactionsResponse
from bmq.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from bmq.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from bmq.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from bmq.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from bmq.protocol.record_batch import BatchHeader

NOW_MS: Final = 1_700_000_000_000
_TOPIC_CONFIG: Final = 1
_DEFAULT: Final = 5
_LATEST: Final = -1
_EARLIEST: Final = -2


class FakeKafkaRequests:
    """Implements bmq.admin.ports.KafkaRequests.

    `asked`: (API, principal, host) of all requests. `refused`: codes that an API answers with. `failed`: APIs that raise.
    `passing`: codes that an API answers with once each, last one first. `producers`: offsets of sequences by producer id.
    `starts`: first offsets of partitions, 0 where nothing else is said. `transactions`: by id, at their coordinators;
    `open_producers`: by partition.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[Record]] = {}
        self.starts: dict[tuple[str, int], int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.created: list[tuple[str, int]] = []
        self.deleted: list[str] = []
        self.asked: list[tuple[ApiKey, str, str]] = []
        self.requests: list[Any] = []
        self.refused: dict[ApiKey, ErrorCode] = {}
        self.failed: dict[ApiKey, KafkaError] = {}
        self.passing: dict[ApiKey, list[ErrorCode]] = {}
        self.producers: dict[int, dict[int, int]] = {}
        self.on_wait: Callable[[], None] = lambda: None
        self.transactions: dict[str, DescribedTransaction] = {}
        self.open_producers: dict[tuple[str, int], list[ProducerState]] = {}

    def now_ms(self) -> int:
        return NOW_MS

    async def ask(self, api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
        self.asked.append((api_key, principal, host))
        self.requests.append(request)
        if api_key in self.failed:
            raise self.failed[api_key]
        code = self.refused.get(api_key, ErrorCode.NONE)
        if self.passing.get(api_key):
            code = self.passing[api_key].pop()
        return getattr(self, f"_{api_key.name.lower()}")(request, int(code))

    def put(self, topic: str, partition: int, *records: Record) -> None:
        """Append records, which get their offsets."""
        log = self.records.setdefault((topic, partition), [])
        first = self.starts.get((topic, partition), 0) + len(log)
        log += (one._replace(offset=first + index) for index, one in enumerate(records))

    def _end(self, topic: str, partition: int) -> int:
        return self.starts.get((topic, partition), 0) + len(self.records.get((topic, partition), ()))

    # ---------------------------------------------------------------- records

    def _fetch(self, request: Any, code: int) -> FetchResponse:
        if request.max_wait_ms:
            self.on_wait()
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic, partitions=[self._fetched(topic.topic, one, code) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _fetched(self, topic: str, asked: Any, code: int) -> PartitionData:
        number, offset = asked.partition, asked.fetch_offset
        start, end = self.starts.get((topic, number), 0), self._end(topic, number)
        if not code and not start <= offset <= end:
            code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        if code:
            return PartitionData(partition_index=number, error_code=code, records=b"")
        log = self.records.get((topic, number), [])[offset - start :]
        # One record a batch, so that a read may end between any two.
        data = b"".join(bytes(encode_batch([one], base_offset=one.offset)) for one in log)
        return PartitionData(
            partition_index=number,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=start,
            aborted_transactions=[],
            records=data,
        )

    def _list_offsets(self, request: Any, code: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            error_code=code,
                            offset=-1 if code else self._offset_at(topic.name, one.partition_index, one.timestamp),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset_at(self, topic: str, partition: int, time: int) -> int:
        if time == _LATEST:
            return self._end(topic, partition)
        if time == _EARLIEST:
            return self.starts.get((topic, partition), 0)
        log = self.records.get((topic, partition), [])
        return next((one.offset for one in log if one.timestamp_ms >= time), -1)

    def _produce(self, request: Any, code: int) -> ProduceResponse:
        responses = []
        for topic in request.topic_data:
            partitions = []
            for one in topic.partition_data:
                if not code and BatchHeader.parse(one.records).producer_id not in self.producers:
                    code = int(ErrorCode.UNKNOWN_PRODUCER_ID)
                base_offset = -1 if code else self._appended(topic.name, one.index, one.records)
                partitions.append(
                    PartitionProduceResponse(
                        index=one.index, error_code=code, base_offset=base_offset, error_message="no"
                    )
                )
            responses.append(TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return ProduceResponse(responses=responses)

    def _appended(self, topic: str, partition: int, data: bytes) -> int:
        """The first offset of a batch, which is appended unless its producer has sent it before."""
        header = BatchHeader.parse(data)
        sequences = self.producers[header.producer_id]
        if header.base_sequence not in sequences:
            sequences[header.base_sequence] = self._end(topic, partition)
            self.put(topic, partition, *decode_records(data))
        return sequences[header.base_sequence]

    def _init_producer_id(self, request: Any, code: int) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            return self._fenced(request, code)
        producer_id = 100 + len(self.producers)
        self.producers[producer_id] = {}
        return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=0)

    # ---------------------------------------------------------------- transactions

    def _list_transactions(self, request: Any, code: int) -> ListTransactionsResponse:
        states = [
            ListedTransaction(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.transaction_state,
            )
            for one in self.transactions.values()
            if not request.state_filters or one.transaction_state in request.state_filters
            if not request.producer_id_filters or one.producer_id in request.producer_id_filters
        ]
        return ListTransactionsResponse(error_code=code, transaction_states=() if code else states)

    def _describe_transactions(self, request: Any, code: int) -> DescribeTransactionsResponse:
        missing = int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        states = [
            DescribedTransaction(transactional_id=one, error_code=code or missing)
            if code or one not in self.transactions
            else self.transactions[one]
            for one in request.transactional_ids
        ]
        return DescribeTransactionsResponse(transaction_states=states)

    def _fenced(self, request: Any, code: int) -> InitProducerIdResponse:
        """As a coordinator that aborts an open transaction: a client asks again until the abort is complete."""
        state = self.transactions[request.transactional_id]
        if not code and state.transaction_state == "Ongoing":
            self.transactions[request.transactional_id] = replace(state, transaction_state="PrepareAbort", topics=())
            code = int(ErrorCode.CONCURRENT_TRANSACTIONS)
        return InitProducerIdResponse(error_code=code, producer_id=state.producer_id, producer_epoch=1)

    def _describe_producers(self, request: Any, code: int) -> DescribeProducersResponse:
        topics = [
            ProducersOfTopic(
                name=topic.name,
                partitions=[
                    ProducersOfPartition(
                        partition_index=number,
                        error_code=code,
                        active_producers=() if code else self.open_producers.get((topic.name, number), []),
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=topics)

    def _write_txn_markers(self, request: Any, code: int) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        (number,) = topic.partition_indexes
        if not code:
            self.open_producers.pop((topic.name, number))
        result = WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
        topics = [WritableTxnMarkerTopicResult(name=topic.name, partitions=[result])]
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)])

    # ---------------------------------------------------------------- topics

    def _create_topics(self, request: Any, code: int) -> CreateTopicsResponse:
        (topic,) = request.topics
        if not code and not request.validate_only:
            self.created.append((topic.name, topic.num_partitions))
        partitions, replicas = (1 if one < 0 else one for one in (topic.num_partitions, topic.replication_factor))
        result = CreatableTopicResult(
            name=topic.name, error_code=code, num_partitions=partitions, replication_factor=replicas
        )
        return CreateTopicsResponse(topics=[result])

    def _delete_topics(self, request: Any, code: int) -> DeleteTopicsResponse:
        (topic,) = request.topics
        if not code:
            self.deleted.append(topic.name)
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=topic.name, error_code=code)])

    def _create_partitions(self, request: Any, code: int) -> CreatePartitionsResponse:
        (topic,) = request.topics
        return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name=topic.name, error_code=code)])

    def _describe_log_dirs(self, request: Any, code: int) -> DescribeLogDirsResponse:
        topics = [
            DescribeLogDirsTopic(
                name=topic.topic,
                partitions=[
                    DescribeLogDirsPartition(
                        partition_index=number, partition_size=100 * self._end(topic.topic, number)
                    )
                    for number in topic.partitions
                    if (topic.topic, number) in self.records
                ],
            )
            for topic in request.topics
        ]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(topics=topics)])

    # ---------------------------------------------------------------- configs

    def _describe_configs(self, request: Any, code: int) -> DescribeConfigsResponse:
        (resource,) = request.resources
        changed = self.configs.get(resource.resource_name, {})
        defaults = {"retention.ms": "604800000", "cleanup.policy": "delete"}
        configs = [
            _config(name, changed.get(name, value), _TOPIC_CONFIG if name in changed else _DEFAULT, value)
            for name, value in defaults.items()
        ]
        configs.append(
            DescribeConfigsResourceResult(name="a.password", value="s3cret", is_sensitive=True, config_type=9)
        )
        result = DescribeConfigsResult(
            error_code=code, resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs
        )
        return DescribeConfigsResponse(results=[result])

    def _incremental_alter_configs(self, request: Any, code: int) -> IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        if not code and not request.validate_only:
            configs = self.configs.setdefault(resource.resource_name, {})
            for one in resource.configs:
                if one.config_operation:
                    configs.pop(one.name, None)
                else:
                    configs[one.name] = one.value
        answer = AlterConfigsResourceResponse(error_code=code, resource_name=resource.resource_name)
        return IncrementalAlterConfigsResponse(responses=[answer])

    # ---------------------------------------------------------------- groups

    def _offset_commit(self, request: Any, code: int) -> OffsetCommitResponse:
        topics = []
        for topic in request.topics:
            for one in topic.partitions if not code else ():
                self.committed[request.group_id, topic.name, one.partition_index] = one.committed_offset
            partitions = [
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                for one in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def _alter_share_group_offsets(self, request: Any, code: int) -> AlterShareGroupOffsetsResponse:
        topics = []
        for topic in request.topics:
            for one in topic.partitions if not code else ():
                self.committed[request.group_id, topic.topic_name, one.partition_index] = one.start_offset
            partitions = [
                AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index) for one in topic.partitions
            ]
            topics.append(AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions))
        return AlterShareGroupOffsetsResponse(error_code=code, responses=topics)

    def _delete_groups(self, request: Any, code: int) -> DeleteGroupsResponse:
        (name,) = request.groups_names
        if not code:
            self.deleted.append(name)
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code)])

    # ---------------------------------------------------------------- security

    def _describe_acls(self, request: Any, code: int) -> DescribeAclsResponse:
        acl = AclDescription(principal="User:alice", host="*", operation=3, permission_type=3)
        resource = DescribeAclsResource(resource_type=2, resource_name="orders", pattern_type=3, acls=[acl])
        return DescribeAclsResponse(error_code=code, resources=() if code else [resource])

    def _describe_user_scram_credentials(self, request: Any, code: int) -> DescribeUserScramCredentialsResponse:
        infos = [CredentialInfo(mechanism=1, iterations=4096)]
        users = [DescribeUserScramCredentialsResult(user=name, credential_infos=infos) for name in ("bob", "alice")]
        return DescribeUserScramCredentialsResponse(error_code=code, results=() if code else users)

    def _describe_client_quotas(self, request: Any, code: int) -> DescribeClientQuotasResponse:
        entity = [EntityData(entity_type="user", entity_name=None)]
        entry = EntryData(entity=entity, values=[ValueData(key="producer_byte_rate", value=1024.0)])
        return DescribeClientQuotasResponse(error_code=code, entries=None if code else [entry])


def _config(name: str, value: str, source: int, default: str) -> DescribeConfigsResourceResult:
    synonyms: Sequence[DescribeConfigsSynonym] = [DescribeConfigsSynonym(name=name, value=value, source=source)]
    if source != _DEFAULT:
        synonyms = [*synonyms, DescribeConfigsSynonym(name=name, value=default, source=_DEFAULT)]
    return DescribeConfigsResourceResult(
        name=name, value=value, config_source=source, config_type=2, synonyms=synonyms, documentation=f"About {name}."
    )
