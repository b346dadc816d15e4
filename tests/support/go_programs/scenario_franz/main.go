// What tests/conformance/clients/programs/plan.py describes, by franz-go: BOOTSTRAP NAME BASE_MS.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	recordsPerCodec = 3
	wait            = 60 * time.Second
)

type told map[string]any

type codec struct {
	name  string
	codec kgo.CompressionCodec
}

var codecs = []codec{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

type scenario struct {
	bootstrap, topic string
	baseMs           int64
	admin            *kadm.Client
	ctx              context.Context
}

func main() {
	baseMs, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 4*wait)
	defer cancel()
	scenario := &scenario{bootstrap: os.Args[1], topic: os.Args[2], baseMs: baseMs, ctx: ctx}
	scenario.admin = kadm.NewClient(scenario.client())
	defer scenario.admin.Close()
	outcome := told{}
	outcome["create topic"] = scenario.create()
	outcome["produce"] = scenario.produce()
	outcome["consume"] = scenario.consume()
	outcome["transaction"] = scenario.transaction()
	outcome["offsets"] = scenario.offsets()
	outcome["configs"] = scenario.configs()
	outcome["delete records"] = scenario.deleteRecords()
	outcome["groups"] = scenario.groups()
	outcome["delete topic"] = scenario.deleteTopic()
	text, err := json.Marshal(outcome)
	check(err)
	fmt.Println(string(text))
}

func (s *scenario) create() any {
	settings := map[string]*string{"retention.ms": kadm.StringPtr("72000000")}
	_, err := s.admin.CreateTopic(s.ctx, 2, 1, settings, s.topic)
	check(err)
	partitions := 0
	settled(func() bool {
		topics, err := s.admin.ListTopics(s.ctx, s.topic)
		check(err)
		partitions = len(topics[s.topic].Partitions)
		return partitions > 0
	})
	_, again := s.admin.CreateTopic(s.ctx, 2, 1, settings, s.topic)
	return told{"partitions": partitions, "again": nameOf(again)}
}

func (s *scenario) produce() any {
	outcome := told{}
	number := 0
	for _, codec := range codecs {
		var records []*kgo.Record
		for each := 0; each < recordsPerCodec; each++ {
			records = append(records, &kgo.Record{
				Topic:     s.topic,
				Partition: 0,
				Key:       []byte("key"),
				Value:     []byte(fmt.Sprint(codec.name, " ", number)),
				Timestamp: time.UnixMilli(s.baseMs + int64(number)),
				Headers:   []kgo.RecordHeader{{Key: "number", Value: []byte(strconv.Itoa(number))}},
			})
			number++
		}
		outcome[codec.name] = s.send(records, kgo.ProducerBatchCompression(codec.codec))
	}
	outcome["other partition"] = s.sendOne("other")
	return outcome
}

func (s *scenario) sendOne(value string) []int64 {
	return s.send([]*kgo.Record{{Topic: s.topic, Partition: 1, Value: []byte(value)}})
}

// send returns the records' offsets.
func (s *scenario) send(records []*kgo.Record, options ...kgo.Opt) []int64 {
	client := s.client(options...)
	defer client.Close()
	results := client.ProduceSync(s.ctx, records...)
	check(results.FirstErr())
	var offsets []int64
	for _, result := range results {
		offsets = append(offsets, result.Record.Offset)
	}
	return offsets
}

func (s *scenario) consume() any {
	outcome := s.read(1 + len(codecs)*recordsPerCodec)
	s.sendOne("late")
	outcome["next"] = s.read(1)
	return outcome
}

// read tells what a new member reads and where the group is afterwards.
func (s *scenario) read(count int) told {
	client := s.client(
		kgo.ConsumerGroup(s.group()),
		kgo.ConsumeTopics(s.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	defer client.Close()
	read := map[string][]any{}
	for _, record := range s.polled(client, count) {
		headers := ""
		for _, header := range record.Headers {
			headers += string(header.Value)
		}
		place := strconv.Itoa(int(record.Partition))
		read[place] = append(read[place], []any{record.Offset, string(record.Value), headers})
	}
	check(client.CommitUncommittedOffsets(s.ctx))
	committed := map[string]int64{}
	for partition, offset := range client.CommittedOffsets()[s.topic] {
		committed[strconv.Itoa(int(partition))] = offset.Offset
	}
	return told{"read": read, "committed": committed}
}

func (s *scenario) transaction() any {
	target := s.topic + "-transactions"
	_, err := s.admin.CreateTopic(s.ctx, 1, 1, nil, target)
	check(err)
	client := s.client(kgo.TransactionalID(s.topic + "-id"))
	defer client.Close()
	group := s.group() + "-copied"
	for number, values := range [][]string{{"first", "second"}, {"third", "fourth"}, {"fifth"}} {
		check(client.BeginTransaction())
		var records []*kgo.Record
		for _, value := range values {
			records = append(records, &kgo.Record{Topic: target, Partition: 0, Value: []byte(value)})
		}
		check(client.ProduceSync(s.ctx, records...).FirstErr())
		check(client.EndTransaction(s.ctx, kgo.TransactionEndTry(number != 1)))
	}
	s.copyOne(target, group)
	offsets, err := s.admin.FetchOffsets(s.ctx, group)
	check(err)
	offset, _ := offsets.Lookup(s.topic, 1)
	return told{
		"read committed":   s.readTopic(target, kgo.ReadCommitted(), 4),
		"read uncommitted": s.readTopic(target, kgo.ReadUncommitted(), 6),
		"offset":           offset.At,
	}
}

// copyOne copies the topic's other partition into target: offsets are committed in a transaction only as a group's member.
func (s *scenario) copyOne(target, group string) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(s.bootstrap),
		kgo.TransactionalID(s.topic+"-copier"),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(s.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	check(err)
	defer session.Close()
	seen := 0
	check(session.Begin())
	for seen < 2+len(codecs)*recordsPerCodec {
		fetches := session.PollFetches(s.ctx)
		check(fetches.Err())
		seen += fetches.NumRecords()
	}
	copied := &kgo.Record{Topic: target, Partition: 0, Value: []byte("copied")}
	check(session.ProduceSync(s.ctx, copied).FirstErr())
	isCommitted, err := session.End(s.ctx, kgo.TryCommit)
	check(err)
	if !isCommitted {
		panic("the copy was aborted")
	}
}

func (s *scenario) readTopic(name string, level kgo.IsolationLevel, count int) []string {
	client := s.client(
		kgo.FetchIsolationLevel(level),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}),
	)
	defer client.Close()
	var values []string
	for _, record := range s.polled(client, count) {
		values = append(values, string(record.Value))
	}
	return values
}

func (s *scenario) offsets() any {
	outcome := told{}
	asked := map[string]func() (kadm.ListedOffsets, error){
		"earliest": func() (kadm.ListedOffsets, error) { return s.admin.ListStartOffsets(s.ctx, s.topic) },
		"latest":   func() (kadm.ListedOffsets, error) { return s.admin.ListEndOffsets(s.ctx, s.topic) },
		"at":       func() (kadm.ListedOffsets, error) { return s.admin.ListOffsetsAfterMilli(s.ctx, s.baseMs+4, s.topic) },
		"behind": func() (kadm.ListedOffsets, error) {
			return s.admin.ListOffsetsAfterMilli(s.ctx, time.Now().Add(time.Hour).UnixMilli(), s.topic)
		},
	}
	for name, ask := range asked {
		listed, err := ask()
		check(err)
		found, _ := listed.Lookup(s.topic, 0)
		check(found.Err)
		since := found.Timestamp
		if since >= 0 {
			since -= s.baseMs
		}
		outcome[name] = []int64{found.Offset, since}
	}
	return outcome
}

func (s *scenario) configs() any {
	before := s.retention()
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("36000000")}
	altered, err := s.admin.AlterTopicConfigs(s.ctx, []kadm.AlterConfig{change}, s.topic)
	check(err)
	check(altered[0].Err)
	after := before
	settled(func() bool {
		after = s.retention()
		return after[0] != before[0]
	})
	return told{"before": before, "after": after}
}

func (s *scenario) retention() []string {
	described, err := s.admin.DescribeTopicConfigs(s.ctx, s.topic)
	check(err)
	for _, config := range described[0].Configs {
		if config.Key == "retention.ms" {
			return []string{*config.Value, config.Source.String()}
		}
	}
	return nil
}

func (s *scenario) deleteRecords() any {
	var before kadm.Offsets
	before.AddOffset(s.topic, 0, 2, -1)
	deleted, err := s.admin.DeleteRecords(s.ctx, before)
	check(err)
	found, _ := deleted.Lookup(s.topic, 0)
	check(found.Err)
	listed, err := s.admin.ListStartOffsets(s.ctx, s.topic)
	check(err)
	start, _ := listed.Lookup(s.topic, 0)
	return told{"low watermark": found.LowWatermark, "earliest": start.Offset}
}

func (s *scenario) groups() any {
	group := s.group()
	listed, err := s.admin.ListGroups(s.ctx)
	check(err)
	var names []string
	for _, name := range listed.Groups() {
		if strings.HasPrefix(name, s.topic+"-") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	described, err := s.admin.DescribeGroups(s.ctx, group)
	check(err)
	fetched, err := s.admin.FetchOffsets(s.ctx, group)
	check(err)
	offsets := map[string]int64{}
	fetched.Each(func(each kadm.OffsetResponse) { offsets[strconv.Itoa(int(each.Partition))] = each.At })
	_, deleted := s.admin.DeleteGroup(s.ctx, group)
	_, again := s.admin.DeleteGroup(s.ctx, group)
	return told{
		"listed":        names,
		"state":         described[group].State,
		"type":          described[group].ProtocolType,
		"members":       len(described[group].Members),
		"offsets":       offsets,
		"deleted":       nameOf(deleted),
		"deleted again": nameOf(again),
	}
}

func (s *scenario) deleteTopic() any {
	_, deleted := s.admin.DeleteTopic(s.ctx, s.topic)
	_, again := s.admin.DeleteTopic(s.ctx, s.topic)
	return told{"deleted": nameOf(deleted), "deleted again": nameOf(again)}
}

func (s *scenario) group() string { return s.topic + "-group" }

func (s *scenario) client(options ...kgo.Opt) *kgo.Client {
	common := []kgo.Opt{kgo.SeedBrokers(s.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	client, err := kgo.NewClient(append(common, options...)...)
	check(err)
	return client
}

func (s *scenario) polled(client *kgo.Client, count int) []*kgo.Record {
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

// settled asks until it is so, for a minute: Apache Kafka shows topics and settings a moment after they were made.
func settled(isSo func() bool) {
	for deadline := time.Now().Add(wait); !isSo() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
}

func nameOf(err error) string {
	if err == nil {
		return "none"
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
