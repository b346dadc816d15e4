// A generated Go client of the gateway: publishes COUNT records, reads them in a share group, and settles each one.
// Arguments: ADDRESS TOPIC GROUP COUNT, and a PEM file of an authority for TLS. It prints the values that it acknowledged.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "gatewayclient/gatewayv1"
)

func main() {
	address, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	transport := insecure.NewCredentials()
	if len(os.Args) > 5 {
		if transport, err = credentials.NewClientTLSFromFile(os.Args[5], ""); err != nil {
			log.Fatal(err)
		}
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	stream, err := pb.NewSubscriberClient(connection).Subscribe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	start := &pb.Start{Topics: []string{topic}, Group: group, Credit: uint32(2 * count)}
	send(stream, &pb.SubscribeRequest{Request: &pb.SubscribeRequest_Start{Start: start}})
	for done, published := 0, false; done < count; {
		answer, err := stream.Recv()
		if err != nil {
			log.Fatal(err)
		}
		if answer.GetStarted() != nil && !published {
			publish(ctx, connection, topic, count)
			published = true
		}
		for _, record := range answer.GetDelivery().GetRecords() {
			ids := []uint64{record.DeliveryId}
			if record.DeliveryCount == 1 && record.Offset%5 == 0 {
				release := &pb.Release{DeliveryIds: ids}
				send(stream, &pb.SubscribeRequest{Request: &pb.SubscribeRequest_Release{Release: release}})
				continue
			}
			fmt.Println(string(record.Value))
			acknowledge := &pb.Acknowledge{DeliveryIds: ids}
			send(stream, &pb.SubscribeRequest{Request: &pb.SubscribeRequest_Acknowledge{Acknowledge: acknowledge}})
			done++
		}
		if failed := answer.GetNotSettled(); failed != nil {
			log.Fatal(failed)
		}
	}
	if err := stream.CloseSend(); err != nil {
		log.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
}

func publish(ctx context.Context, connection *grpc.ClientConn, topic string, count int) {
	request := &pb.PublishRequest{Topic: topic}
	for number := 0; number < count; number++ {
		request.Records = append(request.Records, &pb.Record{Value: []byte(strconv.Itoa(number))})
	}
	answer, err := pb.NewPublisherClient(connection).Publish(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	if len(answer.Failures) > 0 {
		log.Fatal(answer.Failures)
	}
}

func send(stream pb.Subscriber_SubscribeClient, request *pb.SubscribeRequest) {
	if err := stream.Send(request); err != nil {
		log.Fatal(err)
	}
}
