import com.google.protobuf.ByteString;
import io.bmq.gateway.v1.Acknowledge;
import io.bmq.gateway.v1.DeliveredRecord;
import io.bmq.gateway.v1.PublishRequest;
import io.bmq.gateway.v1.PublishResponse;
import io.bmq.gateway.v1.PublisherGrpc;
import io.bmq.gateway.v1.Record;
import io.bmq.gateway.v1.Release;
import io.bmq.gateway.v1.Start;
import io.bmq.gateway.v1.SubscribeRequest;
import io.bmq.gateway.v1.SubscribeResponse;
import io.bmq.gateway.v1.SubscriberGrpc;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A generated Java client of the gateway: publishes COUNT records, reads them in a share group, and settles each one.
 * Arguments: ADDRESS TOPIC GROUP COUNT, and a PEM file of an authority for TLS. It prints the values that it acknowledged.
 */
public final class GatewayClient {
    private static final int WAIT_S = 60;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[3]);
        ChannelCredentials credentials = arguments.length > 4
                ? TlsChannelCredentials.newBuilder().trustManager(new File(arguments[4])).build()
                : InsecureChannelCredentials.create();
        ManagedChannel channel = Grpc.newChannelBuilder(arguments[0], credentials).build();
        try {
            settleAll(channel, topic, arguments[2], count);
        } finally {
            channel.shutdown().awaitTermination(WAIT_S, TimeUnit.SECONDS);
        }
    }

    private static void settleAll(ManagedChannel channel, String topic, String group, int count) throws Exception {
        BlockingQueue<Object> answers = new LinkedBlockingQueue<>();
        StreamObserver<SubscribeRequest> requests = SubscriberGrpc.newStub(channel)
                .withDeadlineAfter(WAIT_S, TimeUnit.SECONDS)
                .subscribe(new Answers(answers));
        Start start = Start.newBuilder().addTopics(topic).setGroup(group).setCredit(2 * count).build();
        requests.onNext(SubscribeRequest.newBuilder().setStart(start).build());
        for (int done = 0; done < count; ) {
            SubscribeResponse answer = next(answers);
            if (answer.hasStarted()) {
                publish(channel, topic, count);
            }
            if (answer.hasNotSettled()) {
                throw new IllegalStateException(answer.toString());
            }
            for (DeliveredRecord record : answer.getDelivery().getRecordsList()) {
                SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
                if (record.getDeliveryCount() == 1 && record.getOffset() % 5 == 0) {
                    request.setRelease(Release.newBuilder().addDeliveryIds(record.getDeliveryId()));
                } else {
                    System.out.println(record.getValue().toStringUtf8());
                    request.setAcknowledge(Acknowledge.newBuilder().addDeliveryIds(record.getDeliveryId()));
                    done++;
                }
                requests.onNext(request.build());
            }
        }
        requests.onCompleted();
        while (answers.take() instanceof SubscribeResponse) {
            continue;
        }
    }

    private static SubscribeResponse next(BlockingQueue<Object> answers) throws Exception {
        Object answer = answers.take();
        if (answer instanceof SubscribeResponse response) {
            return response;
        }
        throw new IllegalStateException("the stream ended: " + answer);
    }

    private static void publish(ManagedChannel channel, String topic, int count) {
        PublishRequest.Builder request = PublishRequest.newBuilder().setTopic(topic);
        for (int number = 0; number < count; number++) {
            request.addRecords(Record.newBuilder().setValue(ByteString.copyFromUtf8(Integer.toString(number))));
        }
        PublishResponse response = PublisherGrpc.newBlockingStub(channel).publish(request.build());
        if (response.getFailuresCount() > 0) {
            throw new IllegalStateException(response.toString());
        }
    }

    private record Answers(BlockingQueue<Object> queue) implements StreamObserver<SubscribeResponse> {
        @Override
        public void onNext(SubscribeResponse answer) {
            queue.add(answer);
        }

        @Override
        public void onError(Throwable error) {
            queue.add(error);
        }

        @Override
        public void onCompleted() {
            queue.add("completed");
        }
    }
}
