// Logs in, writes one record and reads it in a group with franz-go: FILE (JSON, tests/support/secured_server.py).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type told struct {
	Bootstrap, Mechanism, User, Password, Ca, Certificate, Topic, Value string
	IsTls                                                               bool `json:"is_tls"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	var told told
	if err := json.Unmarshal(must(os.ReadFile(os.Args[1])), &told); err != nil {
		panic(err)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(told.Bootstrap),
		kgo.DefaultProduceTopic(told.Topic),
		kgo.ConsumeTopics(told.Topic),
		kgo.ConsumerGroup(told.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if told.IsTls {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(must(os.ReadFile(told.Ca)))
		config := &tls.Config{RootCAs: trusted}
		if told.Mechanism == "" {
			config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(told.Certificate, told.Certificate))}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	login := scram.Auth{User: told.User, Pass: told.Password}
	switch told.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: told.User, Pass: told.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(login.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: told.Password}.AsMechanism()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := must(kgo.NewClient(options...))
	if err := client.ProduceSync(ctx, kgo.StringRecord(told.Value)).FirstErr(); err != nil {
		panic(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		panic(err)
	}
	fetches.EachRecord(func(record *kgo.Record) { fmt.Println(string(record.Value)) })
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		panic(err)
	}
	client.Close()
}
