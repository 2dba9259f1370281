package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peeklock.Bus.message;
import static peeklock.Bus.one;

import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.time.OffsetDateTime;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * Transactions that go wrong: unknown, too long, too large, or cut off. This client takes every answer to a send in a transaction
 * for success, so that only the commit reports a refusal.
 */
class TransactionLimitsTest {
    /** For a daemon whose transactions end soon. */
    private static final String BRIEF = """
        [transactions]
        time_out = "PT2S"
        messages = 10000
        """;
    /** For a daemon whose transactions hold little. */
    private static final String SMALL = """
        [transactions]
        messages = 3
        """;

    private static void assertUnknown(Throwable thrown) {
        String text = Bus.told(thrown);
        assertTrue(text.contains("Transaction hasn't been declared yet, or has already been discharged"), text);
    }

    @Test
    void workAfterTheEndOfATransactionIsRefusedAsUnknown() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            for (boolean commits : List.of(true, false)) {
                ServiceBusTransactionContext transaction = sender.createTransaction();
                if (commits) {
                    sender.commitTransaction(transaction);
                } else {
                    sender.rollbackTransaction(transaction);
                }
                sender.sendMessage(message("never"), transaction);
                assertUnknown(assertThrows(Exception.class, () -> sender.commitTransaction(transaction)));
            }
            sender.sendMessage(message("plain"));
            assertEquals(List.of("plain"), bus.seen(queue));
        }
    }

    @Test
    void aTransactionOfAnotherConnectionIsUnknownAndItsOwnerCanStillCommit() throws Exception {
        try (Bus bus = Bus.plain(); Bus other = bus.other()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("a"), transaction);
            var foreign = other.sender(queue);
            foreign.sendMessage(message("never"), transaction);
            assertUnknown(assertThrows(Exception.class, () -> foreign.commitTransaction(transaction)));
            sender.commitTransaction(transaction);
            assertEquals(List.of("a"), bus.seen(queue));
        }
    }

    @Test
    void aConnectionThatDropsRollsBack() throws Exception {
        try (Bus bus = Bus.plain(); Cable cable = new Cable(Daemon.get().amqp())) {
            String queue = bus.queue();
            bus.sender(queue).sendMessage(message("old"));
            try (Bus doomed = Bus.through(Daemon.get(), cable.address())) {
                var sender = doomed.sender(queue);
                var receiver = doomed.receiver(queue);
                var transaction = sender.createTransaction();
                sender.sendMessage(message("new"), transaction);
                var received = one(receiver);
                receiver.complete(received, new CompleteOptions().setTransactionContext(transaction));
                cable.cut();
                assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
                assertEquals(List.of("old"), bus.seen(queue));
                // The lock stands: locks of a queue outlive their connection.
                bus.receiver(queue).complete(Bus.forgetSettlement(received));
            }
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void aClientThatClosesRollsBack() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            try (Bus gone = bus.other()) {
                var sender = gone.sender(queue);
                sender.sendMessage(message("a"), sender.createTransaction());
            }
            bus.sender(queue).sendMessage(message("after it"));
            assertEquals(List.of("after it"), bus.seen(queue));
        }
    }

    @Test
    void aQueueDisabledBeforeTheCommitFailsTheTransactionAsAWhole() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            sender.sendMessage(message("old"));
            var receiver = bus.receiver(queue);
            var received = one(receiver);
            var transaction = receiver.createTransaction();
            receiver.complete(received, new CompleteOptions().setTransactionContext(transaction));
            sender.sendMessage(message("new"), transaction);
            var administration = Daemon.get().overHttp();
            var properties = administration.updateQueue(administration.getQueue(queue).setStatus(EntityStatus.SEND_DISABLED));
            assertThrows(Exception.class, () -> receiver.commitTransaction(transaction));
            administration.updateQueue(properties.setStatus(EntityStatus.ACTIVE));
            assertEquals(List.of("old"), bus.seen(queue));
        }
    }

    @Test
    void theTimeOutRollsBack() throws Exception {
        try (Bus bus = Bus.of(Daemon.start(BRIEF))) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            sender.sendMessage(message("old"));
            var receiver = bus.receiver(queue);
            var received = one(receiver);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("new"), transaction);
            // Of requests to the management node the client does report refusals.
            OffsetDateTime later = OffsetDateTime.now().plusHours(1);
            Bus.until("the transaction has no end", () -> {
                try {
                    sender.scheduleMessage(message("later"), later, transaction);
                    return false;
                } catch (RuntimeException over) {
                    return true;
                }
            });
            var refused = assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
            assertTrue(Bus.told(refused).contains("The transaction exceeded its time limit"), Bus.told(refused));
            assertEquals(List.of("old"), bus.seen(queue));
            bus.second().receiver(queue).complete(Bus.forgetSettlement(received));
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void moreMessagesThanATransactionMayHoldAreRefusedAndNoneArrives() throws Exception {
        try (Bus bus = Bus.of(Daemon.start(SMALL))) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            var transaction = sender.createTransaction();
            sender.sendMessages(List.of(message("1"), message("2"), message("3")), transaction);
            sender.sendMessage(message("4"), transaction);
            var refused = assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
            assertTrue(Bus.told(refused).contains("Cannot send more than 3 messages in a single transaction"),
                Bus.told(refused));
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void aHundredMessagesAreOneTransactionAndOneMoreIsTooMany() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            for (int count : List.of(100, 101)) {
                var transaction = sender.createTransaction();
                for (int number = 0; number < 100; number++) {
                    sender.sendMessage(message(Integer.toString(number)), transaction);
                }
                if (count == 101) {
                    sender.sendMessage(message("too many"), transaction);
                    assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
                } else {
                    sender.commitTransaction(transaction);
                }
            }
            assertEquals(100, bus.seen(queue).size());
        }
    }
}
