// Logs in, writes one record and reads it in a group with KafkaJS: FILE (JSON, tests/support/secured_server.py).
const { readFileSync } = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");

const told = JSON.parse(readFileSync(process.argv[2]));

function sasl() {
  if (!told.mechanism) return undefined;
  const mechanism = told.mechanism.toLowerCase();
  if (mechanism === "oauthbearer") {
    return { mechanism, oauthBearerProvider: async () => ({ value: told.password }) };
  }
  return { mechanism, username: told.user, password: told.password };
}

function ssl() {
  if (!told.is_tls) return undefined;
  const pem = told.mechanism ? undefined : readFileSync(told.certificate);
  return { ca: [readFileSync(told.ca)], key: pem, cert: pem };
}

async function main() {
  const kafka = new Kafka({ brokers: [told.bootstrap], ssl: ssl(), sasl: sasl(), logLevel: logLevel.ERROR });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: told.topic, messages: [{ value: told.value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: told.topic });
  await consumer.connect();
  await consumer.subscribe({ topic: told.topic, fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  console.log(value);
  await consumer.disconnect();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
