// Takes a topic's records in a share group with franz-go: BOOTSTRAP TOPIC GROUP COUNT. At their first delivery it releases
// records whose offset is 0 modulo 5, rejects those of 1, renews the lock of those of 2 before it accepts them, and accepts
// the rest; at their second it accepts them. Prints "PARTITION OFFSET DELIVERY STATUS" for each, and ends after COUNT
// records that it has accepted or rejected, once the server has acknowledged that.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 60 * time.Second

func status(record *kgo.Record) kgo.AckStatus {
	if record.DeliveryCount() > 1 {
		return kgo.AckAccept
	}
	switch record.Offset % 5 {
	case 0:
		return kgo.AckRelease
	case 1:
		return kgo.AckReject
	default:
		return kgo.AckAccept
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ShareGroup(os.Args[3]),
		kgo.ShareMaxRecords(50),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				fmt.Println("not acknowledged", err)
			}
		}),
	)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for done := 0; done < count; {
		fetches := client.PollRecords(ctx, 50)
		if err := fetches.Err(); err != nil {
			panic(err)
		}
		var renewed []*kgo.Record
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset%5 == 2 && record.DeliveryCount() == 1 {
				record.Ack(kgo.AckRenew)
				renewed = append(renewed, record)
			}
		})
		if len(renewed) > 0 {
			if err := client.FlushAcks(ctx); err != nil {
				panic(err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			how := status(record)
			record.Ack(how)
			if how != kgo.AckRelease {
				done++
			}
			fmt.Println(record.Partition, record.Offset, record.DeliveryCount(), how)
		})
	}
	if err := client.FlushAcks(ctx); err != nil {
		panic(err)
	}
	client.Close()
}
