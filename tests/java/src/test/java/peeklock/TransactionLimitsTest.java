package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peeklock.Bus.message;
import static peeklock.Bus.one;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Transactions that go wrong: unknown, too long, too large, or cut off. */
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

    private static Throwable cause(Throwable thrown) {
        return thrown instanceof AmqpException || thrown.getCause() == null ? thrown : cause(thrown.getCause());
    }

    private static void assertUnknown(Throwable thrown) {
        String text = cause(thrown).toString();
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
                assertUnknown(assertThrows(Exception.class, () -> sender.sendMessage(message("a"), transaction)));
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
            assertUnknown(assertThrows(Exception.class, () -> foreign.sendMessage(message("b"), transaction)));
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
                bus.receiver(queue).complete(received);
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
    void theTimeOutRollsBack() throws Exception {
        try (Bus bus = Bus.of(Daemon.start(BRIEF))) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            sender.sendMessage(message("old"));
            var receiver = bus.receiver(queue);
            var received = one(receiver);
            var transaction = sender.createTransaction();
            sender.sendMessage(message("new"), transaction);
            receiver.complete(received, new CompleteOptions().setTransactionContext(transaction));
            Bus.until("the transaction has no end", () -> {
                try {
                    sender.sendMessage(message("more"), transaction);
                    return false;
                } catch (RuntimeException over) {
                    return true;
                }
            });
            var refused = assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
            assertTrue(cause(refused).toString().contains("transaction"), refused.toString());
            assertEquals(List.of("old"), bus.seen(queue));
            receiver.complete(received);
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
            var refused = assertThrows(Exception.class, () -> sender.sendMessage(message("4"), transaction));
            assertTrue(refused.getMessage().contains("Cannot send more than 3 messages in a single transaction"),
                refused.toString());
            assertThrows(Exception.class, () -> sender.commitTransaction(transaction));
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
                    var refused = assertThrows(Exception.class, () -> sender.sendMessage(message("too many"), transaction));
                    assertEquals(AmqpErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                        ((AmqpException) cause(refused)).getErrorCondition(), refused.toString());
                    sender.rollbackTransaction(transaction);
                } else {
                    sender.commitTransaction(transaction);
                }
            }
            assertEquals(100, bus.seen(queue).size());
        }
    }
}
