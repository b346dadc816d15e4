// Copies a topic exactly once with franz-go: BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID. Runs until it is killed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, source, target, group, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(10*time.Second),
		kgo.ConsumerGroup(group),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(target),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for number := 0; ; number++ {
		fetches := session.PollRecords(ctx, 50)
		if fetches.Err() != nil {
			fmt.Println("not fetched", fetches.Err())
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err := session.Begin(); err != nil {
			panic(err)
		}
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Partition: record.Partition, Value: record.Value}, promise.Promise())
		})
		isWhole := promise.Err() == nil
		isWanted := number%5 != 4 // every fifth is given up: what it copied is copied again
		committed, err := session.End(ctx, kgo.TransactionEndTry(isWhole && isWanted))
		if err != nil {
			panic(err)
		}
		fmt.Println("ended", committed)
	}
}
