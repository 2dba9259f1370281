package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peeklock.Bus.SESSION;
import static peeklock.Bus.forgetSettlement;
import static peeklock.Bus.inSession;
import static peeklock.Bus.message;
import static peeklock.Bus.one;
import static peeklock.Bus.some;

import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Settlements as work of a transaction. */
class TransactionSettlementTest {
    /** What is done with a received message. */
    enum Kind {
        COMPLETE, ABANDON, DEFER, DEAD_LETTER;

        void settle(ServiceBusReceiverClient receiver, ServiceBusReceivedMessage message, ServiceBusTransactionContext in) {
            switch (this) {
                case COMPLETE -> receiver.complete(message, new CompleteOptions().setTransactionContext(in));
                case ABANDON -> receiver.abandon(message, new AbandonOptions().setTransactionContext(in));
                case DEFER -> receiver.defer(message, new DeferOptions().setTransactionContext(in));
                case DEAD_LETTER -> receiver.deadLetter(message, new DeadLetterOptions().setDeadLetterReason("why")
                    .setDeadLetterErrorDescription("because").setTransactionContext(in));
            }
        }

        /** Checks what the queue has when the only message was settled. */
        void check(Bus bus, String queue, ServiceBusReceivedMessage settled) {
            switch (this) {
                case COMPLETE -> assertEquals(List.of(), bus.seen(queue));
                case ABANDON -> assertEquals(1, one(bus.other().receiver(queue)).getDeliveryCount());
                case DEFER -> assertEquals("a",
                    bus.receiver(queue).receiveDeferredMessage(settled.getSequenceNumber()).getBody().toString());
                case DEAD_LETTER -> {
                    assertEquals(List.of(), bus.seen(queue));
                    var dead = bus.deadLetters(queue).peekMessage(1);
                    assertEquals("why", dead.getDeadLetterReason());
                    assertEquals("because", dead.getDeadLetterErrorDescription());
                }
            }
        }
    }

    /** Received, and settled in a transaction that is still open. */
    private static ServiceBusReceivedMessage settled(Bus bus, String queue, ServiceBusReceiverClient receiver, Kind kind,
        ServiceBusTransactionContext transaction) {
        bus.sender(queue).sendMessage(message("a"));
        ServiceBusReceivedMessage received = one(receiver);
        kind.settle(receiver, received, transaction);
        return received;
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void aSettlementTakesEffectWithTheCommit(Kind kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            var transaction = receiver.createTransaction();
            var received = settled(bus, queue, receiver, kind, transaction);
            assertEquals(List.of("a"), bus.seen(queue));
            assertEquals(List.of(), bus.seenDead(queue));
            receiver.commitTransaction(transaction);
            kind.check(bus, queue, received);
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void afterARollBackTheLockStandsAndTheMessageCanBeCompleted(Kind kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            var transaction = receiver.createTransaction();
            var received = settled(bus, queue, receiver, kind, transaction);
            receiver.rollbackTransaction(transaction);
            assertEquals(List.of("a"), bus.seen(queue));
            assertEquals(List.of(), bus.seenDead(queue));
            try (Bus other = bus.other()) {
                assertEquals(List.of(), Bus.bodies(other.receiver(queue).receiveMessages(1, Duration.ofMillis(300))));
            }
            receiver.renewMessageLock(received);
            bus.second().receiver(queue).complete(forgetSettlement(received));
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void afterARollBackTheMessageCanBeSettledInAnotherTransaction(Kind kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            var dropped = receiver.createTransaction();
            var received = settled(bus, queue, receiver, Kind.COMPLETE, dropped);
            receiver.rollbackTransaction(dropped);
            var again = bus.second().receiver(queue);
            var transaction = again.createTransaction();
            kind.settle(again, forgetSettlement(received), transaction);
            assertEquals(List.of("a"), bus.seen(queue));
            again.commitTransaction(transaction);
            kind.check(bus, queue, received);
        }
    }

    @Test
    void afterARollBackAnAbandonedMessageComesAgain() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            var transaction = receiver.createTransaction();
            var received = settled(bus, queue, receiver, Kind.COMPLETE, transaction);
            receiver.rollbackTransaction(transaction);
            bus.second().receiver(queue).abandon(forgetSettlement(received));
            var again = one(receiver);
            assertEquals(1, again.getDeliveryCount());
            receiver.complete(again);
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void completingAgainAfterTheCommitIsMessageLockLost() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            var transaction = receiver.createTransaction();
            var received = settled(bus, queue, receiver, Kind.COMPLETE, transaction);
            receiver.commitTransaction(transaction);
            // By $management and another client: the first one refuses by itself.
            try (Bus other = bus.other()) {
                var lost = assertThrows(ServiceBusException.class, 
                    () -> other.receiver(queue).complete(forgetSettlement(received)));
                assertEquals(ServiceBusFailureReason.MESSAGE_LOCK_LOST, lost.getReason());
            }
        }
    }

    @Test
    void sendsAndCompletionsAreOneWhole() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var receiver = bus.receiver(queue);
            for (int number = 0; number < 10; number++) {
                sender.sendMessage(message("old " + number));
            }
            var dropped = sender.createTransaction();
            for (ServiceBusReceivedMessage each : some(receiver, 5)) {
                sender.sendMessage(message("never"), dropped);
                Kind.COMPLETE.settle(receiver, each, dropped);
            }
            sender.rollbackTransaction(dropped);
            assertTrue(bus.seen(queue).stream().allMatch(body -> body.startsWith("old")));

            var transaction = sender.createTransaction();
            for (ServiceBusReceivedMessage each : some(receiver, 5)) {
                sender.sendMessage(message("new"), transaction);
                Kind.COMPLETE.settle(receiver, each, transaction);
            }
            sender.commitTransaction(transaction);
            assertEquals(List.of("old 0", "old 1", "old 2", "old 3", "old 4", "new", "new", "new", "new", "new"),
                bus.seen(queue));
        }
    }

    @Test
    void sendingToATopicAndCompletingOnItsSubscriptionAreOneWhole() throws Exception {
        try (Bus bus = Bus.plain()) {
            String topic = bus.topic();
            String subscription = topic + "/Subscriptions/all";
            var sender = bus.topicSender(topic);
            sender.sendMessages(List.of(message("first"), message("second")));
            var receiver = bus.receiver(subscription);
            for (boolean commits : List.of(false, true)) {
                var received = one(receiver);
                var transaction = sender.createTransaction();
                sender.sendMessage(message("new"), transaction);
                Kind.COMPLETE.settle(receiver, received, transaction);
                assertEquals(List.of("first", "second"), bus.seen(subscription));
                if (commits) {
                    sender.commitTransaction(transaction);
                } else {
                    sender.rollbackTransaction(transaction);
                }
            }
            assertEquals(List.of("first", "new"), bus.seen(subscription));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void messagesOfASessionAreCompletedInATransaction(boolean commits) throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            bus.sender(queue).sendMessages(List.of(inSession("a", SESSION), inSession("b", SESSION)));
            var receiver = bus.session(queue, SESSION);
            var received = some(receiver, 2);
            var transaction = receiver.createTransaction();
            received.forEach(each -> Kind.COMPLETE.settle(receiver, each, transaction));
            assertEquals(List.of("a", "b"), bus.seen(queue));
            if (commits) {
                receiver.commitTransaction(transaction);
            } else {
                receiver.rollbackTransaction(transaction);
                receiver.close();
                completeAll(bus, queue, 2);
            }
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    /** Accepts the session again; the client gives the same link once more while it closes. */
    private static void completeAll(Bus bus, String queue, int count) {
        Bus.until("the session can't be accepted", () -> {
            try {
                var again = bus.session(queue, SESSION);
                some(again, count).forEach(again::complete);
                return true;
            } catch (RuntimeException closing) {
                return false;
            }
        });
    }

    @Test
    void oneTransactionMayCompleteMessagesOfSeveralSessions() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            bus.sender(queue).sendMessages(List.of(inSession("a", "one"), inSession("b", "two")));
            var first = bus.session(queue, "one");
            var second = bus.session(queue, "two");
            var transaction = first.createTransaction();
            Kind.COMPLETE.settle(first, one(first), transaction);
            Kind.DEAD_LETTER.settle(second, one(second), transaction);
            assertEquals(List.of("a", "b"), bus.seen(queue));
            first.commitTransaction(transaction);
            assertEquals(List.of(), bus.seen(queue));
            assertEquals(List.of("b"), bus.seenDead(queue));
        }
    }

    @ParameterizedTest
    @EnumSource(value = Kind.class, names = {"COMPLETE", "ABANDON", "DEAD_LETTER"})
    void deferredMessagesAreSettledInATransaction(Kind kind) throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var receiver = bus.receiver(queue);
            bus.sender(queue).sendMessage(message("a"));
            var received = one(receiver);
            receiver.defer(received);
            var deferred = receiver.receiveDeferredMessage(received.getSequenceNumber());
            var dropped = receiver.createTransaction();
            kind.settle(receiver, deferred, dropped);
            receiver.rollbackTransaction(dropped);
            assertEquals(List.of("a"), bus.seen(queue));
            receiver.renewMessageLock(deferred);

            var transaction = receiver.createTransaction();
            // Settled by $management: the client may do so again.
            kind.settle(receiver, forgetSettlement(deferred), transaction);
            assertEquals(List.of("a"), bus.seen(queue));
            receiver.commitTransaction(transaction);
            if (kind == Kind.ABANDON) {
                receiver.complete(receiver.receiveDeferredMessage(received.getSequenceNumber()));
            }
            assertEquals(List.of(), bus.seen(queue));
            assertEquals(kind == Kind.DEAD_LETTER ? List.of("a") : List.of(), bus.seenDead(queue));
        }
    }

    @Test
    void aDeferredMessageOfASessionIsCompletedInATransactionAndThenLost() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            bus.sender(queue).sendMessage(inSession("a", SESSION));
            var receiver = bus.session(queue, SESSION);
            var received = one(receiver);
            receiver.defer(received);
            var deferred = receiver.receiveDeferredMessage(received.getSequenceNumber());
            var transaction = receiver.createTransaction();
            Kind.COMPLETE.settle(receiver, deferred, transaction);
            assertEquals(List.of("a"), bus.seen(queue));
            receiver.commitTransaction(transaction);
            assertEquals(List.of(), bus.seen(queue));
            var lost = assertThrows(ServiceBusException.class, () -> receiver.complete(forgetSettlement(deferred)));
            assertEquals(ServiceBusFailureReason.MESSAGE_LOCK_LOST, lost.getReason(), Bus.told(lost));
        }
    }

    @Test
    void receiveAndDeleteIsNotPartOfATransaction() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            sender.sendMessage(message("a"));
            var transaction = sender.createTransaction();
            sender.sendMessage(message("b"), transaction);
            assertEquals("a", one(bus.receiveAndDelete(queue)).getBody().toString());
            sender.rollbackTransaction(transaction);
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void aLockLostBeforeTheCommitFailsTheTransactionAsAWhole() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue(new CreateQueueOptions().setLockDuration(Duration.ofSeconds(5)));
            var sender = bus.sender(queue);
            var receiver = bus.receiver(queue);
            sender.sendMessage(message("a"));
            var received = one(receiver);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("b"), transaction);
            Kind.COMPLETE.settle(receiver, received, transaction);
            try (Bus other = bus.other()) {
                var taken = one(other.receiver(queue));
                assertEquals(1, taken.getDeliveryCount());
                assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
                assertEquals(List.of("a"), bus.seen(queue));
            }
        }
    }
}
