// Logs in, writes one record and reads it with sarama: FILE (JSON, tests/support/secured_server.py).
package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
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

// scramClient is the client's side of RFC 5802: sarama leaves it to its users.
type scramClient struct {
	newHash              func() hash.Hash
	password, bare       string
	authMessage          string
	salted               []byte
	step                 int
}

func (client *scramClient) mac(key []byte, text string) []byte {
	made := hmac.New(client.newHash, key)
	made.Write([]byte(text))
	return made.Sum(nil)
}

func (client *scramClient) Begin(user, password, _ string) error {
	client.password = password
	client.bare = "n=" + user + ",r=" + rand.Text()
	return nil
}

func (client *scramClient) Step(challenge string) (string, error) {
	client.step++
	switch client.step {
	case 1:
		return "n,," + client.bare, nil
	case 2:
		fields := map[string]string{}
		for _, field := range strings.Split(challenge, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		salt := must(base64.StdEncoding.DecodeString(fields["s"]))
		iterations := must(strconv.Atoi(fields["i"]))
		size := client.newHash().Size()
		client.salted = must(pbkdf2.Key(client.newHash, client.password, salt, iterations, size))
		last := "c=biws,r=" + fields["r"]
		client.authMessage = client.bare + "," + challenge + "," + last
		key := client.mac(client.salted, "Client Key")
		stored := client.newHash()
		stored.Write(key)
		proof := make([]byte, size)
		subtle.XORBytes(proof, key, client.mac(stored.Sum(nil), client.authMessage))
		return last + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
	}
	signature := client.mac(client.mac(client.salted, "Server Key"), client.authMessage)
	if challenge != "v="+base64.StdEncoding.EncodeToString(signature) {
		return "", errors.New("the server does not know the password")
	}
	return "", nil
}

func (client *scramClient) Done() bool { return client.step > 2 }

type token string

func (token token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

func main() {
	var told told
	if err := json.Unmarshal(must(os.ReadFile(os.Args[1])), &told); err != nil {
		panic(err)
	}
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Consumer.Return.Errors = true
	if told.IsTls {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(must(os.ReadFile(told.Ca)))
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = &tls.Config{RootCAs: trusted}
		if told.Mechanism == "" {
			pair := must(tls.LoadX509KeyPair(told.Certificate, told.Certificate))
			config.Net.TLS.Config.Certificates = []tls.Certificate{pair}
		}
	}
	if told.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = told.User, told.Password
		config.Net.SASL.Mechanism = sarama.SASLMechanism(told.Mechanism)
		newHash := sha256.New
		if told.Mechanism == "SCRAM-SHA-512" {
			newHash = sha512.New
		}
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{newHash: newHash} }
		config.Net.SASL.TokenProvider = token(told.Password)
	}
	client := must(sarama.NewClient([]string{told.Bootstrap}, config))
	producer := must(sarama.NewSyncProducerFromClient(client))
	message := &sarama.ProducerMessage{Topic: told.Topic, Value: sarama.StringEncoder(told.Value)}
	if _, _, err := producer.SendMessage(message); err != nil {
		panic(err)
	}
	consumer := must(sarama.NewConsumerFromClient(client))
	partition := must(consumer.ConsumePartition(told.Topic, 0, sarama.OffsetOldest))
	select {
	case message := <-partition.Messages():
		fmt.Println(string(message.Value))
	case err := <-partition.Errors():
		panic(err)
	case <-time.After(60 * time.Second):
		panic("no record")
	}
}
