// What tests/conformance/clients/programs/plan.py describes, by sarama: BOOTSTRAP NAME BASE_MS.
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

	"github.com/IBM/sarama"
)

const (
	recordsPerCodec = 3
	wait            = 60 * time.Second
)

type told map[string]any

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
}

type scenario struct {
	bootstrap, topic string
	baseMs           int64
	admin            sarama.ClusterAdmin
	client           sarama.Client
}

func main() {
	baseMs, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	s := &scenario{bootstrap: os.Args[1], topic: os.Args[2], baseMs: baseMs}
	s.client, err = sarama.NewClient([]string{s.bootstrap}, newConfig())
	check(err)
	s.admin, err = sarama.NewClusterAdminFromClient(s.client)
	check(err)
	outcome := told{}
	outcome["create topic"] = s.create()
	outcome["produce"] = s.produce()
	outcome["consume"] = s.consume()
	outcome["transaction"] = s.transaction()
	outcome["offsets"] = s.offsets()
	outcome["configs"] = s.configs()
	outcome["delete records"] = s.deleteRecords()
	outcome["groups"] = s.groups()
	outcome["delete topic"] = s.deleteTopic()
	check(s.admin.Close())
	text, err := json.Marshal(outcome)
	check(err)
	fmt.Println(string(text))
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Admin.Timeout = wait
	config.Producer.Timeout = wait
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Transaction.Retry.Max = 200
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func (s *scenario) create() any {
	before := "72000000"
	detail := &sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &before},
	}
	check(s.admin.CreateTopic(s.topic, detail, false))
	partitions := 0
	settled(func() bool {
		described, err := s.admin.DescribeTopics([]string{s.topic})
		check(err)
		partitions = len(described[0].Partitions)
		return partitions > 0
	})
	return told{
		"partitions": partitions,
		"again":      nameOf(s.admin.CreateTopic(s.topic, detail, false)),
	}
}

func (s *scenario) produce() any {
	outcome := told{}
	number := 0
	for _, codec := range codecs {
		config := newConfig()
		config.Producer.Compression = codec
		var messages []*sarama.ProducerMessage
		for each := 0; each < recordsPerCodec; each++ {
			messages = append(messages, &sarama.ProducerMessage{
				Topic:     s.topic,
				Partition: 0,
				Key:       sarama.StringEncoder("key"),
				Value:     sarama.StringEncoder(fmt.Sprint(codec, " ", number)),
				Timestamp: time.UnixMilli(s.baseMs + int64(number)),
				Headers:   []sarama.RecordHeader{{Key: []byte("number"), Value: []byte(strconv.Itoa(number))}},
			})
			number++
		}
		outcome[codec.String()] = s.send(config, messages)
	}
	outcome["other partition"] = s.sendOne("other")
	return outcome
}

func (s *scenario) sendOne(value string) []int64 {
	message := &sarama.ProducerMessage{Topic: s.topic, Partition: 1, Value: sarama.StringEncoder(value)}
	return s.send(newConfig(), []*sarama.ProducerMessage{message})
}

// send returns the messages' offsets.
func (s *scenario) send(config *sarama.Config, messages []*sarama.ProducerMessage) []int64 {
	producer, err := sarama.NewSyncProducer([]string{s.bootstrap}, config)
	check(err)
	check(producer.SendMessages(messages))
	check(producer.Close())
	var offsets []int64
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets
}

// member reads `count` messages, marks and commits them.
type member struct {
	messages chan *sarama.ConsumerMessage
	done     chan struct{}
	claims   map[string][]int32
}

func (member *member) Setup(session sarama.ConsumerGroupSession) error {
	member.claims = session.Claims()
	return nil
}

func (member *member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (member *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			session.MarkMessage(message, "")
			member.messages <- message
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s *scenario) consume() any {
	outcome := s.read(1 + len(codecs)*recordsPerCodec)
	s.sendOne("late")
	outcome["next"] = s.read(1)
	return outcome
}

// read tells what a new member reads and where the group is afterwards.
func (s *scenario) read(count int) told {
	group, err := sarama.NewConsumerGroup([]string{s.bootstrap}, s.group(), newConfig())
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	reader := &member{messages: make(chan *sarama.ConsumerMessage, 100), done: make(chan struct{})}
	go func() {
		defer close(reader.done)
		for ctx.Err() == nil {
			check(group.Consume(ctx, []string{s.topic}, reader))
		}
	}()
	read := map[string][]any{}
	for _, message := range received(reader.messages, count) {
		headers := ""
		for _, header := range message.Headers {
			headers += string(header.Value)
		}
		place := strconv.Itoa(int(message.Partition))
		read[place] = append(read[place], []any{message.Offset, string(message.Value), headers})
	}
	cancel()
	<-reader.done
	assigned := reader.claims[s.topic]
	sort.Slice(assigned, func(one, other int) bool { return assigned[one] < assigned[other] })
	check(group.Close())
	return told{"read": read, "committed": s.committed(s.group()), "assigned": assigned}
}

func (s *scenario) committed(group string) map[string]int64 {
	fetched, err := s.admin.ListConsumerGroupOffsets(group, map[string][]int32{s.topic: {0, 1}})
	check(err)
	offsets := map[string]int64{}
	for partition, block := range fetched.Blocks[s.topic] {
		offsets[strconv.Itoa(int(partition))] = block.Offset
	}
	return offsets
}

func (s *scenario) transaction() any {
	target := s.topic + "-transactions"
	check(s.admin.CreateTopic(target, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	config := newConfig()
	config.Producer.Transaction.ID = s.topic + "-id"
	producer, err := sarama.NewSyncProducer([]string{s.bootstrap}, config)
	check(err)
	group := s.group() + "-copied"
	for number, values := range [][]string{{"first", "second"}, {"third", "fourth"}, {"fifth"}} {
		check(producer.BeginTxn())
		for _, value := range values {
			message := &sarama.ProducerMessage{Topic: target, Partition: 0, Value: sarama.StringEncoder(value)}
			_, _, err := producer.SendMessage(message)
			check(err)
		}
		if number == 0 {
			offsets := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: 5}}
			check(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{s.topic: offsets}, group))
		}
		if number == 1 {
			check(producer.AbortTxn())
		} else {
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
	return told{
		"read committed":   s.readTopic(target, sarama.ReadCommitted, 3),
		"read uncommitted": s.readTopic(target, sarama.ReadUncommitted, 5),
		"offset":           s.committed(group)["0"],
	}
}

func (s *scenario) readTopic(name string, level sarama.IsolationLevel, count int) []string {
	config := newConfig()
	config.Consumer.IsolationLevel = level
	consumer, err := sarama.NewConsumer([]string{s.bootstrap}, config)
	check(err)
	partition, err := consumer.ConsumePartition(name, 0, sarama.OffsetOldest)
	check(err)
	var values []string
	for _, message := range received(partition.Messages(), count) {
		values = append(values, string(message.Value))
	}
	check(partition.Close())
	check(consumer.Close())
	return values
}

func received(messages <-chan *sarama.ConsumerMessage, count int) []*sarama.ConsumerMessage {
	var found []*sarama.ConsumerMessage
	deadline := time.After(wait)
	for len(found) < count {
		select {
		case message := <-messages:
			found = append(found, message)
		case <-deadline:
			panic(fmt.Sprint(count-len(found), " messages are missing"))
		}
	}
	return found
}

func (s *scenario) offsets() any {
	asked := map[string]int64{
		"earliest": sarama.OffsetOldest,
		"latest":   sarama.OffsetNewest,
		"at":       s.baseMs + 4,
		"behind":   s.baseMs + 1_000,
	}
	outcome := told{}
	for name, timestamp := range asked {
		found, err := s.admin.ListOffsets(map[string]map[int32]int64{s.topic: {0: timestamp}}, nil)
		check(err)
		result := found[s.topic][0]
		since := result.Timestamp
		if since >= 0 {
			since -= s.baseMs
		}
		outcome[name] = []int64{result.Offset, since}
	}
	at, err := s.client.GetOffset(s.topic, 0, s.baseMs+4)
	check(err)
	outcome["at, by a consumer"] = at
	return outcome
}

func (s *scenario) configs() any {
	before := s.retention()
	after := "36000000"
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &after}
	change := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}
	check(s.admin.IncrementalAlterConfig(sarama.TopicResource, s.topic, change, false))
	changed := before
	settled(func() bool {
		changed = s.retention()
		return changed[0] != before[0]
	})
	return told{"before": before, "after": changed}
}

func (s *scenario) retention() []string {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: s.topic, ConfigNames: []string{"retention.ms"}}
	entries, err := s.admin.DescribeConfig(resource)
	check(err)
	return []string{entries[0].Value, entries[0].Source.String()}
}

func (s *scenario) deleteRecords() any {
	check(s.admin.DeleteRecords(s.topic, map[int32]int64{0: 2}))
	earliest, err := s.client.GetOffset(s.topic, 0, sarama.OffsetOldest)
	check(err)
	return told{"earliest": earliest}
}

func (s *scenario) groups() any {
	group := s.group()
	listed, err := s.admin.ListConsumerGroups()
	check(err)
	var names []string
	for name := range listed {
		if strings.HasPrefix(name, s.topic+"-") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	check(err)
	return told{
		"listed":        names,
		"state":         described[0].State,
		"type":          described[0].ProtocolType,
		"members":       len(described[0].Members),
		"offsets":       s.committed(group),
		"deleted":       nameOf(s.admin.DeleteConsumerGroup(group)),
		"deleted again": nameOf(s.admin.DeleteConsumerGroup(group)),
	}
}

func (s *scenario) deleteTopic() any {
	return told{
		"deleted":       nameOf(s.admin.DeleteTopic(s.topic)),
		"deleted again": nameOf(s.admin.DeleteTopic(s.topic)),
	}
}

func (s *scenario) group() string { return s.topic + "-group" }

// settled asks until it is so, for a minute: Apache Kafka shows topics and settings a moment after they were made.
func settled(isSo func() bool) {
	for deadline := time.Now().Add(wait); !isSo() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
}

// nameOf is the error's code where it is one of the protocol's: its words are the server's in part.
func nameOf(err error) string {
	if err == nil {
		return "none"
	}
	var code sarama.KError
	if errors.As(err, &code) {
		return fmt.Sprint("error ", int16(code))
	}
	var topic *sarama.TopicError
	if errors.As(err, &topic) {
		return fmt.Sprint("error ", int16(topic.Err))
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
