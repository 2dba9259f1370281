package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peeklock.Bus.SESSION;
import static peeklock.Bus.bodies;
import static peeklock.Bus.inSession;
import static peeklock.Bus.message;
import static peeklock.Bus.one;
import static peeklock.Bus.some;

import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Sends as work of a transaction, by a client of one entity. */
class TransactionSendTest {
    /** Where messages are sent and where they arrive. */
    private record Place(ServiceBusSenderClient sender, String source) {
        static Place of(Bus bus, String kind) {
            return switch (kind) {
                case "queue" -> queue(bus, bus.queue());
                case "session queue" -> queue(bus, bus.sessionQueue());
                case "partitioned queue" -> queue(bus, bus.queue(new CreateQueueOptions().setPartitioningEnabled(true)));
                case "partitioned session queue" -> queue(bus,
                    bus.queue(new CreateQueueOptions().setPartitioningEnabled(true).setSessionRequired(true)));
                default -> topic(bus, bus.topic());
            };
        }

        private static Place queue(Bus bus, String queue) {
            return new Place(bus.sender(queue), queue);
        }

        private static Place topic(Bus bus, String topic) {
            return new Place(bus.topicSender(topic), topic + "/Subscriptions/all");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"queue", "session queue", "partitioned queue", "partitioned session queue", "topic"})
    void sendsAreInvisibleUntilTheyAreCommitted(String kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            Place place = Place.of(bus, kind);
            ServiceBusTransactionContext transaction = place.sender.createTransaction();
            place.sender.sendMessage(inSession("a", SESSION), transaction);
            place.sender.sendMessages(List.of(inSession("b", SESSION), inSession("c", SESSION)), transaction);
            assertEquals(List.of(), bus.seen(place.source));
            place.sender.commitTransaction(transaction);
            assertEquals(List.of("a", "b", "c"), bus.seen(place.source));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"queue", "session queue", "partitioned queue", "partitioned session queue", "topic"})
    void sendsThatAreRolledBackNeverArrive(String kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            Place place = Place.of(bus, kind);
            ServiceBusTransactionContext transaction = place.sender.createTransaction();
            place.sender.sendMessage(inSession("a", SESSION), transaction);
            place.sender.sendMessages(List.of(inSession("b", SESSION), inSession("c", SESSION)), transaction);
            place.sender.rollbackTransaction(transaction);
            place.sender.sendMessage(inSession("after it", SESSION));
            assertEquals(List.of("after it"), bus.seen(place.source));
        }
    }

    @Test
    void committedMessagesReachAReceiverThatWaits() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var receiver = bus.receiver(queue);
            assertFalse(receiver.receiveMessages(1, Duration.ofMillis(300)).iterator().hasNext());
            var transaction = sender.createTransaction();
            sender.sendMessage(message("a"), transaction);
            sender.sendMessage(message("b"), transaction);
            sender.commitTransaction(transaction);
            for (var received : some(receiver, 2)) {
                assertEquals(0, received.getDeliveryCount());
                receiver.complete(received);
            }
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void oneSenderCarriesTransactedAndPlainMessagesInTurn() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            sender.sendMessage(message("plain 1"));
            var transaction = sender.createTransaction();
            sender.sendMessage(message("transacted 1"), transaction);
            sender.sendMessage(message("plain 2"));
            sender.sendMessage(message("transacted 2"), transaction);
            assertEquals(List.of("plain 1", "plain 2"), bus.seen(queue));
            sender.commitTransaction(transaction);
            sender.sendMessage(message("plain 3"));
            assertEquals(List.of("plain 1", "plain 2", "transacted 1", "transacted 2", "plain 3"), bus.seen(queue));
        }
    }

    @Test
    void transactionsThatAreOpenAtATimeAreIndependent() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var one = sender.createTransaction();
            var two = sender.createTransaction();
            var three = sender.createTransaction();
            sender.sendMessage(message("one"), one);
            sender.sendMessage(message("two"), two);
            sender.sendMessage(message("three"), three);
            sender.commitTransaction(three);
            sender.rollbackTransaction(two);
            assertEquals(List.of("three"), bus.seen(queue));
            sender.commitTransaction(one);
            assertEquals(List.of("three", "one"), bus.seen(queue));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aTransactionWithNothingInItEnds(boolean commits) throws Exception {
        try (Bus bus = Bus.plain()) {
            var sender = bus.sender(bus.queue());
            // The first operation of its connection: no token has been sent and no other link attached.
            var transaction = sender.createTransaction();
            assertTrue(transaction.getTransactionId().remaining() > 0);
            if (commits) {
                sender.commitTransaction(transaction);
            } else {
                sender.rollbackTransaction(transaction);
            }
        }
    }

    @Test
    void aBatchArrivesWithTheCommit() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            for (boolean commits : List.of(false, true)) {
                ServiceBusMessageBatch batch = sender.createMessageBatch();
                for (int number = 0; number < 50; number++) {
                    assertTrue(batch.tryAddMessage(message(Integer.toString(number))));
                }
                var transaction = sender.createTransaction();
                sender.sendMessages(batch, transaction);
                assertEquals(List.of(), bus.seen(queue));
                if (commits) {
                    sender.commitTransaction(transaction);
                } else {
                    sender.rollbackTransaction(transaction);
                }
            }
            assertEquals(50, bus.seen(queue).size());
        }
    }

    @Test
    void aLargeMessageArrivesWithTheCommit() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            String large = "x".repeat(200_000);
            sender.sendMessage(new com.azure.messaging.servicebus.ServiceBusMessage(large), transaction);
            assertEquals(List.of(), bus.seen(queue));
            sender.commitTransaction(transaction);
            assertEquals(List.of(large), bus.seen(queue));
        }
    }

    @Test
    void scheduledMessagesAreThereFromTheCommitOnWithTheNumbersTheyWerePromised() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            OffsetDateTime later = OffsetDateTime.now().plusHours(1);
            var dropped = sender.createTransaction();
            sender.scheduleMessage(message("never"), later, dropped);
            sender.rollbackTransaction(dropped);

            var transaction = sender.createTransaction();
            long number = sender.scheduleMessage(message("later"), later, transaction);
            assertTrue(number > 0);
            assertEquals(List.of(), bus.seen(queue));
            sender.commitTransaction(transaction);
            var peeked = bus.receiver(queue).peekMessage(number);
            assertEquals("later", peeked.getBody().toString());
            assertEquals(number, peeked.getSequenceNumber());
            assertEquals(List.of("later"), bus.seen(queue));
            sender.cancelScheduledMessage(number);
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void oneTransactionMaySendToSeveralSessions() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            sender.sendMessage(inSession("a1", "a"), transaction);
            sender.sendMessage(inSession("b1", "b"), transaction);
            sender.sendMessage(inSession("a2", "a"), transaction);
            sender.commitTransaction(transaction);
            assertEquals(List.of("a1", "a2"), bodies(some(bus.session(queue, "a"), 2)));
            assertEquals(List.of("b1"), bodies(some(bus.session(queue, "b"), 1)));
        }
    }

    @Test
    void afterARollBackASessionHasNothingAndIsNotTheNext() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            sender.sendMessage(inSession("a1", "a"), transaction);
            sender.rollbackTransaction(transaction);
            sender.sendMessage(inSession("b1", "b"));
            assertEquals("b", bus.nextSession(queue).getSessionId());
            var receiver = bus.session(queue, "a");
            assertFalse(receiver.receiveMessages(1, Duration.ofMillis(300)).iterator().hasNext());
        }
    }

    @Test
    void aTransactionOnAPartitionedQueueHasOnePartitionKey() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue(new CreateQueueOptions().setPartitioningEnabled(true));
            var sender = bus.sender(queue);
            var mixed = sender.createTransaction();
            sender.sendMessage(message("a").setPartitionKey("1"), mixed);
            // The client reports no refusal of a send in a transaction; the commit does.
            sender.sendMessage(message("b").setPartitionKey("2"), mixed);
            var refused = assertThrows(Exception.class, () -> sender.commitTransaction(mixed));
            assertTrue(Bus.told(refused).contains("Local transactions cannot span multiple entities or partitions"),
                Bus.told(refused));
            var transaction = sender.createTransaction();
            sender.sendMessage(message("a").setPartitionKey("1"), transaction);
            sender.sendMessage(message("b").setPartitionKey("1"), transaction);
            sender.commitTransaction(transaction);
            assertEquals(List.of("a", "b"), bus.seen(queue));
        }
    }

    @Test
    void duplicatesAreFoundOutAtTheCommitAndARollBackRemembersNothing() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue(new CreateQueueOptions().setDuplicateDetectionRequired(true));
            var sender = bus.sender(queue);
            var dropped = sender.createTransaction();
            sender.sendMessage(message("a"), dropped);
            sender.rollbackTransaction(dropped);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("a"), transaction);
            sender.sendMessage(message("b"), transaction);
            sender.sendMessage(message("b"), transaction);
            sender.commitTransaction(transaction);
            sender.sendMessage(message("a"));
            assertEquals(List.of("a", "b"), bus.seen(queue));
        }
    }

    @Test
    void aPlainClientsTransactionCantSpanTwoQueues() throws Exception {
        try (Bus bus = Bus.plain()) {
            String one = bus.queue();
            String two = bus.queue();
            var first = bus.sender(one);
            var second = bus.sender(two);
            var transaction = first.createTransaction();
            first.sendMessage(message("a"), transaction);
            // The client reports no refusal of a send in a transaction; the commit does.
            second.sendMessage(message("b"), transaction);
            var refused = assertThrows(Exception.class, () -> first.commitTransaction(transaction));
            assertTrue(Bus.told(refused).contains("Local transactions cannot span multiple top-level entities"),
                Bus.told(refused));
            // Outside a transaction one client may use both.
            first.sendMessage(message("c"));
            second.sendMessage(message("d"));
            assertEquals("c", one(bus.receiver(one)).getBody().toString());
            assertEquals("d", one(bus.receiver(two)).getBody().toString());
            assertEquals(List.of("c"), bus.seen(one));
            assertEquals(List.of("d"), bus.seen(two));
        }
    }
}
