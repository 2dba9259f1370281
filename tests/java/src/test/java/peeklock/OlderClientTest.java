package peeklock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.microsoft.azure.servicebus.ClientFactory;
import com.microsoft.azure.servicebus.IMessage;
import com.microsoft.azure.servicebus.IMessageReceiver;
import com.microsoft.azure.servicebus.IMessageSender;
import com.microsoft.azure.servicebus.IMessageSession;
import com.microsoft.azure.servicebus.Message;
import com.microsoft.azure.servicebus.ReceiveMode;
import com.microsoft.azure.servicebus.SubscriptionClient;
import com.microsoft.azure.servicebus.primitives.ConnectionStringBuilder;
import com.microsoft.azure.servicebus.primitives.MessageNotFoundException;
import com.microsoft.azure.servicebus.primitives.MessagingFactory;
import com.microsoft.azure.servicebus.primitives.SessionCannotBeLockedException;
import com.microsoft.azure.servicebus.rules.CorrelationFilter;
import com.microsoft.azure.servicebus.rules.RuleDescription;
import com.microsoft.azure.servicebus.rules.SqlFilter;
import com.microsoft.azure.servicebus.rules.SqlRuleAction;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The retired client {@code com.microsoft.azure:azure-servicebus}. It always uses port 5671, and delivery tags of 36 bytes. */
class OlderClientTest {
    private static ConnectionStringBuilder at(String entity) throws Exception {
        Daemon daemon = Daemon.get();
        assumeTrue(daemon.servesAmqpsPort(), "port 5671 is taken");
        return new ConnectionStringBuilder("Endpoint=sb://localhost/;SharedAccessKeyName=RootManageSharedAccessKey;"
            + "SharedAccessKey=SAS_KEY_VALUE", entity);
    }

    private static IMessageSender sender(String entity) throws Exception {
        return ClientFactory.createMessageSenderFromConnectionStringBuilder(at(entity));
    }

    private static IMessageReceiver receiver(String entity, ReceiveMode mode) throws Exception {
        return ClientFactory.createMessageReceiverFromConnectionStringBuilder(at(entity), mode);
    }

    private static String body(IMessage message) {
        return new String(message.getMessageBody().getBinaryData().get(0), StandardCharsets.UTF_8);
    }

    private static IMessage one(IMessageReceiver receiver) throws Exception {
        IMessage message = receiver.receive(Bus.PATIENCE);
        assertNotNull(message, "no message came");
        return message;
    }

    @Test
    void messagesAreSettledInEveryWay() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            IMessageSender sender = sender(queue);
            sender.send(new Message("completed"));
            sender.sendBatch(List.of(new Message("abandoned"), new Message("dead"), new Message("deferred")));
            IMessageReceiver receiver = receiver(queue, ReceiveMode.PEEKLOCK);
            Map<String, Object> modified = Map.of("tries", 1);
            List<Long> deferred = new ArrayList<>();
            for (int count = 0; count < 5; count++) {
                IMessage message = one(receiver);
                assertNotNull(receiver.renewMessageLock(message));
                boolean isAbandoned = body(message).equals("abandoned") && message.getDeliveryCount() == 1;
                switch (isAbandoned ? "again" : body(message)) {
                    case "again" -> receiver.abandon(message.getLockToken(), modified);
                    case "dead" -> receiver.deadLetter(message.getLockToken(), "why", "because", modified);
                    case "deferred" -> {
                        receiver.defer(message.getLockToken(), modified);
                        deferred.add(message.getSequenceNumber());
                    }
                    default -> receiver.complete(message.getLockToken());
                }
            }
            IMessage message = receiver.receiveDeferredMessage(deferred.get(0));
            assertEquals("deferred", body(message));
            assertEquals(modified, message.getProperties());
            receiver.complete(message.getLockToken());
            assertThrows(MessageNotFoundException.class, () -> receiver.receiveDeferredMessage(deferred.get(0)));
            IMessage dead = one(receiver(queue + "/$deadletterqueue", ReceiveMode.RECEIVEANDDELETE));
            assertEquals(Map.of("tries", 1, "DeadLetterReason", "why", "DeadLetterErrorDescription", "because"),
                dead.getProperties());
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void scheduledMessagesAreBrowsedAndCancelled() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            IMessageSender sender = sender(queue);
            Instant due = Instant.now().plusSeconds(3600);
            long first = sender.scheduleMessage(new Message("first"), due);
            long second = sender.scheduleMessage(new Message("second"), due);
            var browser = ClientFactory.createMessageReceiverFromConnectionStringBuilder(at(queue), ReceiveMode.PEEKLOCK);
            assertEquals(List.of("first", "second"), browser.peekBatch(10).stream().map(OlderClientTest::body).toList());
            sender.cancelScheduledMessage(first);
            sender.cancelScheduledMessage(second);
            assertNull(browser.peek(1));
        }
    }

    @Test
    void aSessionHasAStateAndOneHolder() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.sessionQueue();
            Message message = new Message("a");
            message.setSessionId("s");
            sender(queue).send(message);
            IMessageSession session =
                ClientFactory.acceptSessionFromConnectionStringBuilder(at(queue), "s", ReceiveMode.PEEKLOCK);
            byte[] state = {1, 2};
            session.setState(state);
            assertArrayEquals(state, session.getState());
            session.renewSessionLock();
            assertThrows(SessionCannotBeLockedException.class,
                () -> ClientFactory.acceptSessionFromConnectionStringBuilder(at(queue), "s", ReceiveMode.PEEKLOCK));
            session.complete(one(session).getLockToken());
            session.close();
            assertEquals(List.of(), bus.seen(queue));
        }
    }

    @Test
    void rulesAreAddedAndRemoved() throws Exception {
        try (Bus bus = Bus.plain()) {
            String topic = bus.topic();
            String path = topic + "/subscriptions/all";
            SubscriptionClient rules = new SubscriptionClient(at(path), ReceiveMode.PEEKLOCK);
            rules.removeRule("$Default");
            CorrelationFilter filter = new CorrelationFilter();
            filter.setLabel("red");
            rules.addRule(new RuleDescription("label", filter));
            RuleDescription sql = new RuleDescription("sql", new SqlFilter("n > 6"));
            sql.setAction(new SqlRuleAction("SET m = 1"));
            rules.addRule(sql);
            assertEquals(List.of("label", "sql"), rules.getRules().stream().map(RuleDescription::getName).toList());
            IMessageSender sender = sender(topic);
            for (int n : new int[] {6, 7}) {
                Message message = new Message("m" + n);
                message.setProperties(Map.of("n", n));
                sender.send(message);
            }
            IMessage copy = one(receiver(path, ReceiveMode.RECEIVEANDDELETE));
            assertEquals(Map.of("n", 7, "m", 1L, "RuleName", "sql"), copy.getProperties());
            rules.close();
        }
    }

    @Test
    void aTransactionSendsByWayOfAnotherQueue() throws Exception {
        try (Bus bus = Bus.plain()) {
            String source = bus.queue();
            String target = bus.queue();
            sender(source).send(new Message("order"));
            MessagingFactory factory = MessagingFactory.createFromConnectionStringBuilder(at(null));
            IMessageReceiver receiver = ClientFactory.createMessageReceiverFromEntityPath(factory, source, ReceiveMode.PEEKLOCK);
            IMessageSender via = ClientFactory.createTransferMessageSenderFromEntityPath(factory, target, source);
            IMessage order = one(receiver);
            var undone = factory.startTransaction();
            via.send(new Message("undone"), undone);
            undone.rollback();
            var done = factory.startTransaction();
            receiver.complete(order.getLockToken(), done);
            via.send(new Message("invoice"), done);
            done.commit();
            assertEquals("invoice", body(one(receiver(target, ReceiveMode.RECEIVEANDDELETE))));
            assertEquals(List.of(), bus.seen(source));
            assertEquals(List.of(), bus.seen(target));
            factory.close();
        }
    }
}
