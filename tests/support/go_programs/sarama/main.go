// Copies a topic exactly once with sarama: BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID. Runs until it is killed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type copier struct {
	producer sarama.AsyncProducer
	target   string
	group    string
	number   int
}

func (copier *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim copies the messages of one partition, some at a time.
func (copier *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var some []*sarama.ConsumerMessage
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			some = append(some, message)
			if len(some) < 50 {
				continue
			}
		case <-pause.C:
			if len(some) == 0 {
				continue
			}
		case <-session.Context().Done():
			return nil
		}
		if err := copier.copy(some); err != nil {
			return err
		}
		some = nil
	}
}

func (copier *copier) copy(some []*sarama.ConsumerMessage) error {
	for {
		copier.number++
		if err := copier.producer.BeginTxn(); err != nil {
			return err
		}
		for _, message := range some {
			copier.producer.Input() <- &sarama.ProducerMessage{
				Topic: copier.target, Partition: message.Partition, Value: sarama.ByteEncoder(message.Value),
			}
		}
		last := some[len(some)-1]
		if err := copier.producer.AddMessageToTxn(last, copier.group, nil); err != nil {
			return err
		}
		if copier.number%5 == 4 { // every fifth is given up, and copied again
			if err := copier.producer.AbortTxn(); err != nil {
				return err
			}
			fmt.Println("ended false")
			continue
		}
		if err := copier.producer.CommitTxn(); err != nil {
			return err
		}
		fmt.Println("ended true")
		return nil
	}
}

func main() {
	bootstrap, source, target, group, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = 10 * time.Second
	config.Producer.Transaction.Retry.Max = 200
	config.Net.MaxOpenRequests = 1
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond

	producer, err := sarama.NewAsyncProducer([]string{bootstrap}, config)
	if err != nil {
		panic(err)
	}
	go func() {
		for failure := range producer.Errors() {
			fmt.Println("not produced", failure)
		}
	}()
	members, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	if err != nil {
		panic(err)
	}
	handler := &copier{producer: producer, target: target, group: group}
	for {
		if err := members.Consume(context.Background(), []string{source}, handler); err != nil {
			panic(err)
		}
	}
}
