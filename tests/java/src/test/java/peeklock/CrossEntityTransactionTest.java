package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peeklock.Bus.SESSION;
import static peeklock.Bus.forgetSettlement;
import static peeklock.Bus.inSession;
import static peeklock.Bus.message;
import static peeklock.Bus.one;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Transactions of a client that lets them span entities ({@code enableCrossEntityTransactions}). */
class CrossEntityTransactionTest {
    private static final List<String> ROOTS = List.of("queue", "session queue", "subscription");
    private static final List<String> DESTINATIONS = List.of("queue", "session queue", "topic");

    static Stream<Arguments> pairs() {
        return ROOTS.stream().flatMap(root -> DESTINATIONS.stream().map(each -> Arguments.of(root, each)));
    }

    /** Where messages are received: {@code path} is for a receiver, {@code sender} of another client fills it. */
    private record Root(Bus bus, String kind, String path) {
        static Root of(Bus bus, String kind) {
            String path = switch (kind) {
                case "queue" -> bus.queue();
                case "session queue" -> bus.sessionQueue();
                default -> bus.topic() + "/Subscriptions/all";
            };
            return new Root(bus, kind, path);
        }

        void fill(String body) {
            try (Bus other = bus.other()) {
                boolean isTopic = kind.equals("subscription");
                String name = path.split("/")[0];
                // In a queue without sessions the id of one does no harm.
                (isTopic ? other.topicSender(name) : other.sender(name)).sendMessage(inSession(body, SESSION));
            }
        }

        ServiceBusReceiverClient receiver() {
            return kind.equals("session queue") ? bus.session(path, SESSION) : bus.receiver(path);
        }

        List<String> seen() {
            return bus.seen(path);
        }
    }

    /** Where messages go: {@code seen} looks there as another client does. */
    private record Destination(Bus bus, String kind, String name) {
        static Destination of(Bus bus, String kind) {
            String name = switch (kind) {
                case "queue" -> bus.queue();
                case "session queue" -> bus.sessionQueue();
                default -> bus.topic();
            };
            return new Destination(bus, kind, name);
        }

        ServiceBusSenderClient sender() {
            return kind.equals("topic") ? bus.topicSender(name) : bus.sender(name);
        }

        List<String> seen() {
            return bus.seen(kind.equals("topic") ? name + "/Subscriptions/all" : name);
        }
    }

    private static CompleteOptions in(com.azure.messaging.servicebus.ServiceBusTransactionContext transaction) {
        return new CompleteOptions().setTransactionContext(transaction);
    }

    @ParameterizedTest
    @MethodSource("pairs")
    void receivingFirstCommitsAndRollsBackAcrossEntities(String rootKind, String destinationKind) throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root root = Root.of(bus, rootKind);
            Destination b = Destination.of(bus, destinationKind);
            Destination c = Destination.of(bus, "queue");
            root.fill("1");
            root.fill("2");
            var receiver = root.receiver();
            var toB = b.sender();
            var toC = c.sender();
            for (boolean commits : List.of(false, true)) {
                ServiceBusReceivedMessage received = one(receiver);
                var transaction = receiver.createTransaction();
                receiver.complete(received, in(transaction));
                toB.sendMessage(inSession("for b", SESSION), transaction);
                toC.sendMessage(message("for c"), transaction);
                assertEquals(List.of("1", "2"), root.seen());
                assertEquals(List.of(), b.seen());
                assertEquals(List.of(), c.seen());
                if (commits) {
                    receiver.commitTransaction(transaction);
                } else {
                    receiver.rollbackTransaction(transaction);
                }
            }
            assertEquals(List.of("1"), root.seen());
            assertEquals(List.of("for b"), b.seen());
            assertEquals(List.of("for c"), c.seen());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"queue", "session queue", "topic"})
    void sendingFirstCommitsAndRollsBackAcrossEntities(String destinationKind) throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Destination a = Destination.of(bus, "queue");
            Destination b = Destination.of(bus, destinationKind);
            Destination c = Destination.of(bus, "queue");
            var toA = a.sender();
            var toB = b.sender();
            var toC = c.sender();
            for (boolean commits : List.of(false, true)) {
                var transaction = toA.createTransaction();
                toA.sendMessage(message("for a"), transaction);
                toB.sendMessage(inSession("for b", SESSION), transaction);
                toC.sendMessage(message("for c"), transaction);
                assertEquals(List.of(), a.seen());
                if (commits) {
                    toA.commitTransaction(transaction);
                } else {
                    toA.rollbackTransaction(transaction);
                }
            }
            assertEquals(List.of("for a"), a.seen());
            assertEquals(List.of("for b"), b.seen());
            assertEquals(List.of("for c"), c.seen());
        }
    }

    @Test
    void afterARollBackTheMessageOfTheRootCanBeAbandonedAndComesAgain() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root root = Root.of(bus, "queue");
            root.fill("a");
            var receiver = root.receiver();
            var received = one(receiver);
            var sender = bus.sender(bus.queue());
            var transaction = receiver.createTransaction();
            sender.sendMessage(message("b"), transaction);
            receiver.complete(received, in(transaction));
            receiver.rollbackTransaction(transaction);
            bus.second().receiver(root.path).abandon(forgetSettlement(received));
            var again = one(receiver);
            assertEquals(1, again.getDeliveryCount());
            receiver.complete(again);
            assertEquals(List.of(), root.seen());
        }
    }

    @Test
    void theFirstOperationOfAClientMayBeTransacted() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("a"), transaction);
            sender.commitTransaction(transaction);
            assertEquals(List.of("a"), bus.seen(queue));
        }
    }

    @Test
    void aLaterReceiverOfAnotherEntityIsRefusedAlsoWithoutATransaction() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root one = Root.of(bus, "queue");
            Root two = Root.of(bus, "queue");
            one.fill("a");
            two.fill("b");
            var first = one.receiver();
            var received = one(first);
            // The client that does not block tells what the broker says.
            var second = bus.asyncReceiver(two.path);
            var refused = assertThrows(Exception.class, () -> second.receiveMessages().blockFirst(Bus.PATIENCE));
            assertTrue(Bus.told(refused).contains("Local transactions cannot span multiple top-level entities such as queue or"
                + " topic"), Bus.told(refused));
            first.complete(received);
            assertEquals(List.of(), one.seen());
            assertEquals(List.of("b"), two.seen());
        }
    }

    @Test
    void withoutATransactionACrossEntityClientSendsToEveryEntityAndReceives() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            String one = bus.queue();
            String two = bus.queue();
            String topic = bus.topic();
            bus.sender(one).sendMessage(message("a"));
            bus.sender(two).sendMessage(message("b"));
            bus.topicSender(topic).sendMessage(message("c"));
            var receiver = bus.receiver(one);
            receiver.complete(one(receiver));
            assertEquals(List.of(), bus.seen(one));
            assertEquals(List.of("b"), bus.seen(two));
            assertEquals(List.of("c"), bus.seen(topic + "/Subscriptions/all"));
        }
    }

    @ParameterizedTest
    @CsvSource({"queue, true", "queue, false", "subscription, true", "subscription, false"})
    void whatADestinationDoesNotTakeGoesToTheTransferDeadLettersOfTheRoot(String kind, boolean isDeleted)
        throws Exception {
        try (Bus bus = Bus.crossEntity(); Bus other = bus.other()) {
            Root root = Root.of(bus, kind);
            root.fill("a");
            String destination = bus.queue();
            var receiver = root.receiver();
            var received = one(receiver);
            var sender = bus.sender(destination);
            var transaction = receiver.createTransaction();
            receiver.complete(received, in(transaction));
            sender.sendMessage(message("b"), transaction);
            var administration = Daemon.get().overHttp();
            if (isDeleted) {
                administration.deleteQueue(destination);
            } else {
                administration.updateQueue(administration.getQueue(destination).setStatus(EntityStatus.SEND_DISABLED));
            }
            receiver.commitTransaction(transaction);
            assertEquals(List.of(), root.seen());
            // The root of a subscription is its topic, whose transfer dead letters are received like those of a queue.
            String name = root.path.split("/")[0];
            var dead = other.keep(other.builder().receiver().queueName(name)
                .subQueue(SubQueue.TRANSFER_DEAD_LETTER_QUEUE).buildClient());
            assertEquals("b", dead.peekMessage(1).getBody().toString());
            if (kind.equals("queue")) {
                assertEquals(1, administration.getQueueRuntimeProperties(name).getTransferDeadLetterMessageCount());
            }
            var letter = one(dead);
            assertEquals("b", letter.getBody().toString());
            dead.complete(letter);
            assertNull(dead.peekMessage(1));
        }
    }

    @Test
    void aSessionOfTheRootThatIsClosedAfterARollBackCanBeAcceptedAgain() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root root = Root.of(bus, "session queue");
            root.fill("a");
            String destination = bus.queue();
            var receiver = root.receiver();
            var received = one(receiver);
            var sender = bus.sender(destination);
            var transaction = receiver.createTransaction();
            receiver.complete(received, in(transaction));
            sender.sendMessage(message("b"), transaction);
            receiver.rollbackTransaction(transaction);
            receiver.close();
            // The client gives the same link once more while it closes.
            Bus.until("the session can't be accepted", () -> {
                try {
                    var again = bus.session(root.path, SESSION);
                    again.complete(one(again));
                    return true;
                } catch (RuntimeException closing) {
                    return false;
                }
            });
            assertEquals(List.of(), root.seen());
            assertEquals(List.of(), bus.seen(destination));
        }
    }

    @Test
    void duplicatesAreFoundOutAtTheDestination() throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root root = Root.of(bus, "queue");
            String destination = bus.queue(new CreateQueueOptions().setDuplicateDetectionRequired(true));
            root.fill("a");
            var receiver = root.receiver();
            var received = one(receiver);
            var sender = bus.sender(destination);
            var transaction = receiver.createTransaction();
            sender.sendMessage(message("b"), transaction);
            sender.sendMessage(message("b"), transaction);
            receiver.complete(received, in(transaction));
            receiver.commitTransaction(transaction);
            assertEquals(List.of("b"), bus.seen(destination));
            assertEquals(List.of(), root.seen());
        }
    }

    /** As in .NET's live test CrossEntityTransactionReceivesFirst: without sessions, only the transaction has a partition key. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void partitionedEntitiesTakePartInATransaction(boolean inSessions) throws Exception {
        try (Bus bus = Bus.crossEntity(); Bus other = bus.other()) {
            Supplier<String> partitioned =
                () -> bus.queue(new CreateQueueOptions().setPartitioningEnabled(true).setSessionRequired(inSessions));
            String a = partitioned.get();
            String b = partitioned.get();
            String c = bus.topic(new CreateTopicOptions().setPartitioningEnabled(true));
            Function<String, ServiceBusMessage> keyed = body -> {
                ServiceBusMessage message = inSessions ? inSession(body, SESSION) : message(body);
                message.getRawAmqpMessage().getMessageAnnotations().put("x-opt-via-partition-key", SESSION);
                return message;
            };
            other.sender(a).sendMessage(keyed.apply("1"));
            var receiver = inSessions ? bus.session(a, SESSION) : bus.receiver(a);
            ServiceBusReceivedMessage received = one(receiver);
            var transaction = receiver.createTransaction();
            receiver.complete(received, in(transaction));
            bus.sender(b).sendMessage(keyed.apply("for b"), transaction);
            bus.topicSender(c).sendMessage(keyed.apply("for c"), transaction);
            receiver.commitTransaction(transaction);
            assertEquals(List.of(), bus.seen(a));
            assertEquals(List.of("for b"), bus.seen(b));
            assertEquals(List.of("for c"), bus.seen(c + "/Subscriptions/all"));
        }
    }

    /** The handler of a processor completes and sends to two queues in a transaction. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void handlersOfProcessorsCommitWithoutAnError(boolean inSessions) throws Exception {
        try (Bus bus = Bus.crossEntity()) {
            Root root = Root.of(bus, inSessions ? "session queue" : "queue");
            String b = bus.queue();
            String c = bus.queue();
            List<Throwable> errors = new ArrayList<>();
            List<ServiceBusSenderClient> senders = new ArrayList<>();
            java.util.function.Consumer<com.azure.messaging.servicebus.ServiceBusReceivedMessageContext> handler = context -> {
                synchronized (senders) {
                    // The processor's link comes first, so that its queue is the root.
                    if (senders.isEmpty()) {
                        senders.addAll(List.of(bus.sender(b), bus.sender(c)));
                    }
                    var transaction = senders.get(0).createTransaction();
                    String body = context.getMessage().getBody().toString();
                    senders.get(0).sendMessage(message("b of " + body), transaction);
                    senders.get(1).sendMessage(message("c of " + body), transaction);
                    context.complete(in(transaction));
                    senders.get(0).commitTransaction(transaction);
                }
            };
            root.fill("1");
            root.fill("2");
            var processor = bus.keep(inSessions
                ? bus.builder().sessionProcessor().queueName(root.path).disableAutoComplete().maxConcurrentSessions(1)
                    .processMessage(handler).processError(error -> errors.add(error.getException())).buildProcessorClient()
                : bus.builder().processor().queueName(root.path).disableAutoComplete()
                    .processMessage(handler).processError(error -> errors.add(error.getException())).buildProcessorClient());
            processor.start();
            Bus.until("the processor does not finish: " + errors, () -> root.seen().isEmpty());
            processor.stop();
            assertEquals(List.of("b of 1", "b of 2"), bus.seen(b));
            assertEquals(List.of("c of 1", "c of 2"), bus.seen(c));
            assertFalse(errors.stream().anyMatch(each -> true), errors.toString());
        }
    }
}
